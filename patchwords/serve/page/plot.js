// Figure 7, right: a dot a head, how far it looks, by layer.

const SPACE = "http://www.w3.org/2000/svg";
const [WIDE, TALL, LEFT, BELOW, ABOVE] = [340, 262, 38, 38, 26];

function shape(name, attributes, text = "") {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// A round step of which there are about four below a number.
function step(most) {
  const rough = Math.max(most, 1e-6) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].find((times) => times * power >= rough) * power;
}

export function plot(place, distances, words, choose) {
  const layers = distances.length;
  const unit = step(Math.max(...distances.flat()));
  const top = unit * Math.ceil(Math.max(...distances.flat(), 1e-6) / unit + 0.1);
  const x = (layer) => LEFT + ((layer + 0.5) * (WIDE - LEFT - 6)) / layers;
  const y = (pixels) => TALL - BELOW - (pixels * (TALL - BELOW - ABOVE)) / top;
  const drawing = shape("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": words.label });
  for (let pixels = 0; pixels <= top + 1e-9; pixels += unit) {
    drawing.append(shape("line", { class: "rule", x1: LEFT, x2: WIDE - 6, y1: y(pixels), y2: y(pixels) }));
    drawing.append(shape("text", { class: "end", x: LEFT - 6, y: y(pixels) + 4 }, String(Number(pixels.toPrecision(3)))));
  }
  const every = Math.ceil(layers / 12);
  for (let layer = 0; layer < layers; layer += every) {
    drawing.append(shape("text", { class: "middle", x: x(layer), y: TALL - BELOW + 16 }, String(layer + 1)));
  }
  drawing.append(shape("text", { class: "end quiet", x: WIDE - 6, y: TALL - 3 }, words.layer));
  drawing.append(shape("text", { class: "quiet", x: 2, y: 11 }, words.pixels));
  const dots = distances.flatMap((heads, layer) =>
    heads.map((pixels, head) => ({ layer, head, at: [x(layer), y(pixels)], dot: shape("circle", { class: "dot", cx: x(layer), cy: y(pixels), r: 4 }) })),
  );
  drawing.append(...dots.map(({ dot }) => dot));
  drawing.addEventListener("click", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = [((event.clientX - box.left) * WIDE) / box.width, ((event.clientY - box.top) * TALL) / box.height];
    const far = ({ at: [right, down] }) => Math.hypot(right - at[0], down - at[1]);
    const nearest = dots.reduce((one, other) => (far(other) < far(one) ? other : one));
    if (far(nearest) < 24) choose(nearest.layer + 1, nearest.head + 1);
  });
  place.replaceChildren(drawing);
  return (layer, head) => {
    for (const each of dots) {
      const chosen = each.layer + 1 === layer && (head === 0 || each.head + 1 === head);
      each.dot.classList.toggle("chosen", chosen);
      each.dot.setAttribute("r", chosen && head ? 6 : 4);
      if (chosen) drawing.append(each.dot); // in front of the others
    }
  };
}
