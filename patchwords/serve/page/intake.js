// How a picture comes in: chosen, dropped, pasted, or one of the samples.

import { say, whenSpoken } from "./words.js";

const SAMPLES = ["daisy", "tulip", "goldfish", "lights", "digit"];

export function intake(take) {
  const file = document.getElementById("file");
  file.addEventListener("change", () => {
    if (file.files.length) give(file.files[0], file.files[0].name, take);
    file.value = ""; // so that the same file can be chosen again
  });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || document.body.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const [dropped] = event.dataTransfer.files;
    if (dropped) give(dropped, dropped.name, take);
  });
  document.addEventListener("paste", (event) => {
    const [pasted] = event.clipboardData.files;
    if (pasted) give(pasted, pasted.name === "image.png" ? say("pasted") : pasted.name, take);
  });
  document.getElementById("samples").replaceChildren(...SAMPLES.map((name) => sample(name, take)));
}

function sample(name, take) {
  const button = document.createElement("button");
  button.type = "button";
  const picture = document.createElement("img");
  Object.assign(picture, { src: `page/${name}.png`, width: 56, height: 56, alt: "" });
  button.append(picture);
  const label = () => {
    button.setAttribute("aria-label", say(name));
    button.title = say(name);
  };
  label();
  whenSpoken(label);
  button.addEventListener("click", async () => {
    const answer = await fetch(`page/${name}.png`);
    give(await answer.blob(), say(name), take);
  });
  return button;
}

function give(picture, name, take) {
  const upload = document.getElementById("upload");
  URL.revokeObjectURL(upload.src);
  upload.src = URL.createObjectURL(picture);
  document.getElementById("called").textContent = name;
  document.getElementById("given").hidden = false;
  take(picture);
}
