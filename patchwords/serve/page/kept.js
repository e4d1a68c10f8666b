// The page as one file for one picture: everything that can be asked is in it.

import { switches } from "./words.js";
import { meanOf, unpacked } from "./matrix.js";
import { open, show } from "./exhibit.js";

const kept = JSON.parse(document.getElementById("kept").textContent);
const places = kept.positions && unpacked(kept.positions);
const layers = kept.attention.map((heads) => heads.map(unpacked));

open((work) => work());
document.getElementById("called").textContent = kept.name;
switches();
show(kept.model, kept.found, {
  kept: kept.kept,
  positions: () => places,
  attention: (layer, head) => (head ? layers[layer - 1][head - 1] : meanOf(layers[layer - 1])),
});
