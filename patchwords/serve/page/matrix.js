// Matrices as they come: bytes, each row on its own scale (`packed` in serve/examine.py).

export function unpacked({ rows, cols, low, scale, bytes }) {
  const letters = atob(bytes);
  const data = new Uint8Array(letters.length);
  for (let i = 0; i < data.length; i++) data[i] = letters.charCodeAt(i);
  return {
    rows,
    row(number) {
      const values = new Float32Array(cols);
      const step = scale[number] / 255;
      for (let i = 0; i < cols; i++) values[i] = low[number] + step * data[number * cols + i];
      return values;
    },
  };
}

export function meanOf(matrices) {
  return {
    rows: matrices[0].rows,
    row(number) {
      const total = matrices[0].row(number);
      for (const other of matrices.slice(1)) other.row(number).forEach((value, i) => (total[i] += value));
      return total.map((value) => value / matrices.length);
    },
  };
}

export function highest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

// Figure 6: each cell becomes some pixels, blurred by a Gaussian whose deviation is one cell, from 0 to 1.
export function smoothed(map, times = 8) {
  const rows = map.length * times;
  const cols = map[0].length * times;
  let fine = Float32Array.from({ length: rows * cols }, (_, i) => map[Math.floor(i / cols / times)][Math.floor((i % cols) / times)]);
  const kernel = Float32Array.from({ length: 6 * times + 1 }, (_, i) => Math.exp(-0.5 * ((i - 3 * times) / times) ** 2));
  fine = blurred(fine, rows, cols, kernel, cols, 1);
  fine = blurred(fine, cols, rows, kernel, 1, cols);
  const low = fine.reduce((a, b) => Math.min(a, b), Infinity);
  const high = fine.reduce((a, b) => Math.max(a, b), -Infinity);
  const flat = high - low <= 1e-5 * Math.abs(high);
  return { rows, cols, values: fine.map((value) => (flat ? Number(high > 0) : (value - low) / (high - low))) };
}

// Along lines of `length` places, `stride` apart; beyond an end the last place goes on.
function blurred(values, lines, length, kernel, between, stride) {
  const found = new Float32Array(values.length);
  const reach = (kernel.length - 1) / 2;
  const total = kernel.reduce((a, b) => a + b, 0);
  for (let line = 0; line < lines; line++) {
    for (let at = 0; at < length; at++) {
      let sum = 0;
      for (let k = -reach; k <= reach; k++) {
        const place = Math.min(length - 1, Math.max(0, at + k));
        sum += kernel[k + reach] * values[line * between + place * stride];
      }
      found[line * between + at * stride] = sum / total;
    }
  }
  return found;
}
