// One picture before one model: section 4.5 of the paper under the pointer.

import { percent, say, whenSpoken } from "./words.js";
import { highest, smoothed } from "./matrix.js";
import { drawAlike, drawLight, drawPatches, drawSequence, drawWhole, loaded, tellSequence } from "./paint.js";
import { plot } from "./plot.js";
import { cells, markers, pointing } from "./pointing.js";

const APART = 0.13; // of a patch, once the picture has fallen apart
const FALL = 800; // milliseconds that it takes
const REST = 140; // milliseconds of rest on a patch before the service is asked about it alone
const SILENCE = 350; // milliseconds before what is pointed at is spoken

const part = (id) => document.getElementById(id);
const canvasOf = (id) => part(id).querySelector("canvas");
const frames = () => [...document.querySelectorAll("#exhibit .frame")];

let here = null; // what is shown: model, found, picture, source, and of the model its places
let chosen = { patch: 0, layer: 1, head: 0 };
let matrix = null; // what patches attend to in the chosen layer and head; null while it is on its way
let grid = null; // the cells of the keyboard
let mark = () => {};
let careful = (work) => work();
let frame = 0;
let speech = 0;
let rest = 0;
let shows = 0;
let news = ""; // said before anything else

// `guard` runs what may fail, and says so.
export function open(guard) {
  careful = guard;
  pointing(frames(), () => here.model.grid, (number) => here.model.grid && number !== chosen.patch && point(number));
  part("words").querySelector(".cells").addEventListener("keydown", (event) => grid.walk(event, chosen.patch));
  part("layer").addEventListener("input", (event) => pick(Number(event.target.value), chosen.head));
  whenSpoken(() => here && tell());
}

// `found` is what an examination says; `source` knows attention(layer, head, patch) and positions(), and what is kept.
export async function show(model, found, source) {
  const turn = ++shows;
  const picture = await loaded(found.picture);
  const places = model.grid ? await source.positions() : null;
  if (turn !== shows) return; // another picture came meanwhile
  const same = here && here.model.name === model.name;
  here = { model, found, picture, source, places, light: found.map && smoothed(found.map) };
  matrix = null;
  part("exhibit").hidden = false;
  if (!same) begin();
  for (const place of frames()) place.style.setProperty("aspect-ratio", `${picture.width} / ${picture.height}`);
  for (const id of ["words", "attention", "map"]) canvasOf(id).classList.remove("waiting");
  frames().forEach((place) => place.classList.toggle("whole", !model.grid));
  fall();
  if (here.light) drawLight(canvasOf("map"), picture, here.light, false);
  const [{ label, probability }] = found.predictions;
  news = `${label}: ${percent(probability)} `;
  tell();
  speakSoon("");
  if (model.grid) point(chosen.patch);
  if (looks()) await choose(chosen.layer, chosen.head);
}

// What stands there goes, and so does what is on its way there, where it is the answer to another question: it would be
// taken for the one to this.
export function withdraw(found) {
  if (here && here.found === found) return;
  shows += 1;
  clearTimeout(rest);
  part("exhibit").hidden = true;
  part("about").textContent = "";
  here = null;
}

function looks() {
  return here.model.layers > 0;
}

// What depends on the model alone.
function begin() {
  const { model, source } = here;
  const [rows, cols] = model.grid || [1, 1];
  chosen = { patch: Math.floor(rows / 2) * cols + Math.floor(cols / 2), layer: Math.ceil(model.layers / 2), head: 0 };
  part("map").hidden = model.shows === "nothing";
  part("attention").hidden = part("distances").hidden = !looks();
  part("positions").hidden = !model.grid || !(here.places || looks());
  part("lack").hidden = looks();
  part("sequence").hidden = !model.grid;
  document.querySelector(".equation").hidden = !model.grid;
  document.querySelector("#attention .controls").hidden = source.kept === "nothing";
  if (model.grid) {
    grid = cells(part("words").querySelector(".cells"), model.grid, point);
    tellSequence(part("sequence"), model.special, rows * cols);
  } else part("words").querySelector(".cells").replaceChildren();
  Object.assign(part("layer"), { max: model.layers || 1, value: chosen.layer });
  const heads = source.kept === "heads" ? (model.heads[0] || 0) : 0;
  part("heads").replaceChildren(...Array.from({ length: heads + 1 }, (_, head) => headButton(head)));
}

function headButton(head) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "head", value: head, checked: head === 0 });
  input.addEventListener("change", () => pick(chosen.layer, head));
  const text = document.createElement("span");
  label.append(input, text);
  return label;
}

// The picture arrives whole and falls apart into its words, where motion is welcome.
function fall() {
  cancelAnimationFrame(frame);
  const { picture, model } = here;
  const canvas = canvasOf("words");
  if (!model.grid) return drawWhole(canvas, picture);
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return drawPatches(canvas, picture, model.grid, APART);
  const start = performance.now();
  const next = (now) => {
    const share = Math.min(1, Math.max(0, now - start) / FALL);
    drawPatches(canvas, picture, model.grid, APART * (1 - (1 - share) ** 3));
    if (share < 1) frame = requestAnimationFrame(next);
  };
  next(start);
}

// A patch is pointed at: arrays alone are read, nothing is asked for, unless there are too many patches to have all.
function point(number) {
  const before = chosen.patch;
  chosen.patch = number;
  grid.mark(number, before);
  markers(frames(), here.model.grid, number);
  drawSequence(part("sequence"), here.picture, here.model.grid, number);
  drawPositions();
  if (looks() && !here.model.at_once && number !== before) {
    clearTimeout(rest);
    matrix = null;
    rest = setTimeout(() => pick(chosen.layer, chosen.head), REST);
  }
  drawAttention();
}

function pick(layer, head) {
  return careful(() => choose(layer, head));
}

async function choose(layer, head) {
  chosen = { ...chosen, layer, head: here.source.kept === "heads" ? head : 0 };
  part("layer").value = layer;
  for (const input of document.querySelectorAll("#heads input")) input.checked = Number(input.value) === chosen.head;
  mark(layer, chosen.head);
  tellChoice();
  if (here.source.kept === "nothing") return;
  const asked = { ...chosen, of: here };
  canvasOf("attention").classList.add("waiting");
  const [, cols] = here.model.grid;
  const alone = here.model.at_once ? null : [Math.floor(chosen.patch / cols) + 1, (chosen.patch % cols) + 1];
  const found = await here.source.attention(layer, chosen.head, alone);
  const late = here !== asked.of || chosen.layer !== layer || chosen.head !== asked.head || (alone && chosen.patch !== asked.patch);
  if (!found || late) return;
  matrix = found;
  canvasOf("attention").classList.remove("waiting");
  drawAttention();
}

function attended() {
  return matrix.row(here.model.at_once ? chosen.patch : 0);
}

function drawAttention() {
  if (!looks()) return;
  const [rows, cols] = here.model.grid;
  const canvas = canvasOf("attention");
  if (matrix) {
    const values = attended();
    const most = values[highest(values)] || 1;
    drawLight(canvas, here.picture, { rows, cols, values: values.map((value) => Math.sqrt(value / most)) }, true);
    canvas.dataset.shown = `${chosen.layer}.${chosen.head}.${chosen.patch}`;
  } else if (here.source.kept === "nothing" || !canvas.dataset.shown) drawWhole(canvas, here.picture);
  tellLooks();
}

function drawPositions() {
  if (!here.places) return;
  const values = here.places.row(chosen.patch);
  const others = values.filter((_, number) => number !== chosen.patch);
  const most = Math.max(0.05, others.reduce((a, b) => Math.max(a, Math.abs(b)), 0));
  drawAlike(canvasOf("positions"), values, here.model.grid, most);
  const span = [Math.min(...others, 1), Math.max(...others, -1)].map((value) => value.toFixed(2).replace("-", "−"));
  part("alike").textContent = others.length ? say("alike", { low: span[0], high: span[1] }) : "";
}

// Everything that is said; again when the language changes.
function tell() {
  const { model, found } = here;
  tellModel(model);
  const best = found.predictions[0].label;
  if (model.grid) {
    grid.name();
    const [rows, cols] = model.grid;
    part("words-note").textContent = say("wordsNote", { count: rows * cols, cell: model.cell.join("×") });
  } else part("words-note").textContent = say("wholeNote");
  tellAnswers(found.predictions, model);
  const evidence = found.kind === "evidence";
  part("map-heading").textContent = say(evidence ? "evidence" : "rollout");
  part("map-tag").textContent = say(evidence ? "evidenceTag" : "figure6");
  part("map-note").textContent = say(evidence ? "evidenceNote" : "rolloutNote", { label: best });
  part("lack").textContent = say(model.shows === "nothing" ? "lackEverything" : "lackAttention");
  part("positions-note").textContent = say(here.places ? "positionsNote" : model.at_once ? "noPositions" : "manyPositions");
  part("positions").querySelector(".frame").hidden = part("alike").hidden = !here.places;
  for (const id of ["attention", "positions"]) canvasOf(id).setAttribute("aria-label", say(`${id}Label`));
  canvasOf("map").setAttribute("aria-label", say("rolloutLabel"));
  const kept = { heads: model.at_once ? "attentionNote" : "oneByOne", means: "keptMeans", nothing: "keptNothing" };
  part("attention-note").textContent = say(kept[here.source.kept]);
  document.querySelectorAll("#heads span").forEach((text, head) => (text.textContent = head || say("mean")));
  if (found.distances) {
    const words = { label: say("plotLabel"), layer: say("axisLayer"), pixels: say("axisPixels") };
    mark = plot(document.querySelector("#distances .plot"), found.distances, words, pick);
    mark(chosen.layer, chosen.head);
    tellChoice();
  }
  if (here.places) drawPositions();
  tellLooks();
}

function tellModel(model) {
  const [rows, cols] = model.grid || [];
  part("about").textContent = say("about", {
    name: model.name,
    image: model.image.join("×"),
    patches: model.grid ? say("aboutPatches", { rows, cols }) : "",
    layers: model.layers ? sayLayers(model.layers, model.heads[0]) : "",
    classes: model.classes === 1 ? say("oneClass") : say("classes", { count: model.classes }),
  });
}

function sayLayers(layers, heads) {
  return say("aboutLayers", {
    layers: layers === 1 ? say("oneLayer") : say("layers", { count: layers }),
    heads: heads === 1 ? say("oneHead") : say("heads", { count: heads }),
  });
}

function tellAnswers(predictions, model) {
  part("answer-note").textContent = say(model.loss === "sigmoid" ? "each" : "sum", { count: model.classes });
  part("answers").replaceChildren(
    ...predictions.map(({ label, probability }) => {
      const item = document.createElement("li");
      const [name, share, bar] = ["bdi", "span", "i"].map((tag) => document.createElement(tag));
      name.textContent = label;
      share.textContent = percent(probability);
      bar.style.setProperty("--share", probability);
      bar.setAttribute("aria-hidden", "true");
      item.append(name, share, bar);
      return item;
    }),
  );
}

function tellChoice() {
  const { layer, head } = chosen;
  part("layer-number").textContent = layer;
  part("layer").setAttribute("aria-valuetext", `${say("layer")} ${layer}`);
  if (!here.found.distances) return;
  const heads = here.found.distances[layer - 1];
  const pixels = head ? heads[head - 1] : heads.reduce((a, b) => a + b, 0) / heads.length;
  const which = head ? say("headNumber", { head }) : say("mean");
  part("far").textContent = say("far", { layer, head: which, pixels: pixels.toFixed(1) });
}

function tellLooks() {
  if (!looks() || !matrix) return;
  const [, cols] = here.model.grid;
  const values = attended();
  const most = highest(values);
  const place = (number) => [Math.floor(number / cols) + 1, (number % cols) + 1];
  const [[row, col], [toRow, toCol]] = [place(chosen.patch), place(most)];
  const left = 1 - values.reduce((a, b) => a + b, 0);
  const special = here.model.special;
  const tokens = say(special.length === 1 && special[0] === "class" ? "class" : "tokens");
  const whole = say(most === chosen.patch ? "itself" : "looks", { row, col, toRow, toCol, share: percent(values[most]) });
  const text = special.length && left > 0.001 ? whole + say("special", { share: percent(left), tokens }) : whole;
  part("looks").textContent = text;
  speakSoon(text);
}

// To those who cannot see it, once what is pointed at stays the same for a moment.
function speakSoon(text) {
  clearTimeout(speech);
  speech = setTimeout(() => {
    part("spoken").textContent = news + text;
    news = "";
  }, SILENCE);
}
