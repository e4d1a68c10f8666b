// One patch is pointed at: with the mouse over any map, with a finger, or with the arrow keys in the grid of patches.

import { say } from "./words.js";

export function within(value, most) {
  return Math.min(most - 1, Math.max(0, value));
}

// Frames on which a mouse points by moving and a finger by touching.
export function pointing(frames, grid, point) {
  for (const frame of frames) {
    const tell = (event) => {
      const box = frame.getBoundingClientRect();
      const [rows, cols] = grid();
      const row = within(Math.floor(((event.clientY - box.top) / box.height) * rows), rows);
      point(row * cols + within(Math.floor(((event.clientX - box.left) / box.width) * cols), cols));
    };
    frame.addEventListener("pointermove", (event) => event.pointerType !== "touch" && tell(event));
    frame.addEventListener("click", tell);
  }
}

// Cells that a keyboard walks through and a screen reader reads; one at a time can be reached with the tab key.
export function cells(place, [rows, cols], point) {
  place.setAttribute("aria-rowcount", rows);
  place.setAttribute("aria-colcount", cols);
  const made = Array.from({ length: rows * cols }, (_, number) => {
    const cell = document.createElement("div");
    cell.setAttribute("role", "gridcell");
    cell.tabIndex = -1;
    cell.addEventListener("focus", () => point(number));
    return cell;
  });
  place.replaceChildren(
    ...Array.from({ length: rows }, (_, row) => {
      const line = document.createElement("div");
      line.setAttribute("role", "row");
      line.append(...made.slice(row * cols, (row + 1) * cols));
      return line;
    }),
  );
  return {
    name() {
      made.forEach((cell, number) => {
        cell.setAttribute("aria-label", say("cell", { row: Math.floor(number / cols) + 1, col: (number % cols) + 1 }));
      });
    },
    mark(number, before) {
      if (before !== undefined && made[before]) made[before].tabIndex = -1;
      made[number].tabIndex = 0;
    },
    walk(event, from) {
      const [row, col] = [Math.floor(from / cols), from % cols];
      const to = {
        ArrowUp: [row - 1, col],
        ArrowDown: [row + 1, col],
        ArrowLeft: [row, col - 1],
        ArrowRight: [row, col + 1],
        Home: [event.ctrlKey ? 0 : row, 0],
        End: [event.ctrlKey ? rows - 1 : row, cols - 1],
        PageUp: [0, col],
        PageDown: [rows - 1, col],
      }[event.key];
      if (!to || event.altKey || event.metaKey) return;
      event.preventDefault();
      made[within(to[0], rows) * cols + within(to[1], cols)].focus({ preventScroll: true });
    },
  };
}

export function markers(frames, [rows, cols], number) {
  const [row, col] = [Math.floor(number / cols), number % cols];
  for (const frame of frames) {
    const { style } = frame.querySelector(".marker");
    style.left = `${(100 * col) / cols}%`;
    style.top = `${(100 * row) / rows}%`;
    style.width = `${100 / cols}%`;
    style.height = `${100 / rows}%`;
  }
}
