// The page as the service gives it out.

import { say, switches } from "./words.js";
import { open, show, withdraw } from "./exhibit.js";
import { enter, examined, models, Refused } from "./service.js";
import { intake } from "./intake.js";

const part = (id) => document.getElementById(id);
let known = [];
let picture = null;
let working = 0;
let complaints = 0;

// Says what went wrong in the service's own words, and asks for the token where that is missing. What comes right later
// makes that good only if it was begun later.
async function guarded(work) {
  const before = complaints;
  working += 1;
  document.body.classList.add("busy");
  try {
    await work();
    if (complaints === before) part("trouble").hidden = true;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Refused) askForToken();
    else complain(error.message);
  } finally {
    working -= 1;
    document.body.classList.toggle("busy", working > 0);
  }
}

function complain(text) {
  complaints += 1;
  part("trouble").textContent = text;
  part("trouble").hidden = false;
}

function askForToken() {
  if (!part("door").hidden) complain(say("refused"));
  part("door").hidden = false;
  part("intake").inert = true;
  part("token").focus();
}

async function begin() {
  known = await models();
  part("door").hidden = true;
  part("intake").inert = false;
  part("models").replaceChildren(...known.map(({ name }) => new Option(name)));
  part("chooser").hidden = known.length < 2;
}

async function examine() {
  const model = known[part("models").selectedIndex];
  let answer = {};
  try {
    answer = await examined(model, picture);
    await show(model, answer.found, answer.source);
  } catch (error) {
    if (error.name !== "AbortError") withdraw(answer.found);
    throw error;
  }
  document.body.classList.add("shown");
}

part("door").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(part("token").value);
  part("token").value = "";
  guarded(begin);
});
part("models").addEventListener("change", () => picture && guarded(examine));
open(guarded);
intake((given) => {
  picture = given;
  guarded(examine);
});
switches();
guarded(begin);
