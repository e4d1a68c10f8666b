// Draws the picture, its patches, and maps over it.

const FINE = 560; // pixels of the longer side of a drawing
const TINY = 48; // up to this side a picture's own pixels are shown as squares
const DARK = { smooth: 0.13, crisp: 0.22 }; // what is left of the light where nobody looks
const SEQUENCE = 9; // patches of the row that are shown at a time

export function loaded(address) {
  return new Promise((resolve, reject) => {
    const picture = new Image();
    picture.onload = () => resolve(picture);
    picture.onerror = () => reject(new Error("the picture cannot be shown"));
    picture.src = address;
  });
}

function sheet(canvas, picture) {
  const scale = FINE / Math.max(picture.width, picture.height);
  const [width, height] = [Math.round(picture.width * scale), Math.round(picture.height * scale)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = Math.max(picture.width, picture.height) > TINY;
  context.imageSmoothingQuality = "high";
  context.clearRect(0, 0, width, height);
  return context;
}

export function drawWhole(canvas, picture) {
  const context = sheet(canvas, picture);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
}

// The picture falls apart: `apart` is the share of a patch that becomes a gap.
export function drawPatches(canvas, picture, [rows, cols], apart) {
  const context = sheet(canvas, picture);
  const [high, wide] = [picture.height / rows, picture.width / cols];
  const [tall, broad] = [canvas.height / rows, canvas.width / cols];
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      const gap = [col * broad + (broad * apart) / 2, row * tall + (tall * apart) / 2];
      context.drawImage(picture, col * wide, row * high, wide, high, ...gap, broad * (1 - apart), tall * (1 - apart));
    }
  }
}

const veil = document.createElement("canvas");

// The values, from 0 to 1, are the light of the picture; crisp where each belongs to a patch.
export function drawLight(canvas, picture, { rows, cols, values }, crisp) {
  const context = sheet(canvas, picture);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  Object.assign(veil, { width: cols, height: rows });
  const pixels = new ImageData(cols, rows);
  const dark = crisp ? DARK.crisp : DARK.smooth;
  for (let i = 0; i < values.length; i++) {
    const light = Math.round(255 * (dark + (1 - dark) * values[i]));
    pixels.data.set([light, light, light, 255], 4 * i);
  }
  veil.getContext("2d").putImageData(pixels, 0, 0);
  context.globalCompositeOperation = "multiply";
  context.imageSmoothingEnabled = !crisp;
  context.drawImage(veil, 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-over";
}

// Cosines as a colour: blue where alike, red where opposed, clear at 0. `most` is the strongest colour's.
export function drawAlike(canvas, values, [rows, cols], most) {
  if (canvas.width !== cols || canvas.height !== rows) Object.assign(canvas, { width: cols, height: rows });
  const pixels = new ImageData(cols, rows);
  values.forEach((value, i) => {
    const strength = Math.round(255 * Math.min(1, Math.abs(value) / most));
    pixels.data.set(value >= 0 ? [47, 111, 222, strength] : [208, 84, 52, strength], 4 * i);
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

// A part of the sentence: the special tokens, then the patches around one of them, each with its number.
export function tellSequence(list, special, count) {
  const items = special.map((name) => ({ name, text: name === "class" ? "x class" : name.slice(0, 4) }));
  const shown = Math.min(SEQUENCE - Math.min(items.length, 2), count);
  list.replaceChildren(
    ...items.slice(0, 2).map(({ text }) => tile("token", text)),
    ...Array.from({ length: shown }, () => tile("patch", "")),
  );
}

function tile(kind, text) {
  const item = document.createElement("li");
  item.className = kind;
  const inside = document.createElement(kind === "patch" ? "canvas" : "span");
  inside.textContent = kind === "patch" ? "" : text;
  const number = document.createElement("small");
  item.append(inside, number);
  return item;
}

export function drawSequence(list, picture, [rows, cols], chosen) {
  const tiles = [...list.querySelectorAll(".patch")];
  const first = Math.max(0, Math.min(chosen - Math.floor(tiles.length / 2), rows * cols - tiles.length));
  const [high, wide] = [picture.height / rows, picture.width / cols];
  tiles.forEach((item, i) => {
    const number = first + i;
    const canvas = item.firstChild;
    Object.assign(canvas, { width: 48, height: Math.round((48 * high) / wide) });
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = wide > 4;
    context.drawImage(picture, (number % cols) * wide, Math.floor(number / cols) * high, wide, high, 0, 0, canvas.width, canvas.height);
    item.classList.toggle("chosen", number === chosen);
    item.lastChild.textContent = String(number + 1);
  });
}
