// Chooses places for the words of the map so that none covers another; the rest stay without.

const LINE = 15;
const MOST_LETTERS = 18;

/** The places around a point and its ring, in the order in which they are tried. */
const SIDES = [
  { dx: 15, dy: 4.5, anchor: "start" },
  { dx: -15, dy: 4.5, anchor: "end" },
  { dx: 0, dy: -18, anchor: "middle" },
  { dx: 0, dy: 27, anchor: "middle" },
];

/** Half the width of a symbol, and of the ring around that of the first token in `order`. */
const SYMBOL = 5;
const RING = 13;

/** Measures text as the map writes it; the bold face is wider than the plain one. */
const measure = document.createElement("canvas").getContext("2d");

/** Return a label or null for each point; `order` lists those to name from the most important one. */
export function placeLabels(points, words, order, { width, height }) {
  measure.font = `700 13px ${getComputedStyle(document.body).fontFamily}`;
  const taken = points.map(([x, y], i) => {
    const reach = i === order[0] ? RING : SYMBOL;
    return { left: x - reach, right: x + reach, top: y - reach, bottom: y + reach };
  });
  const labels = words.map(() => null);
  for (const i of order) {
    const text = [...words[i]].length > MOST_LETTERS ? `${[...words[i]].slice(0, MOST_LETTERS - 1).join("")}…` : words[i];
    const side = SIDES.find((each) => {
      const box = boxOf(points[i], text, each);
      const isInside = box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
      return isInside && taken.every((other, j) => j === i || !overlap(box, other));
    });
    if (side === undefined) continue;
    taken.push(boxOf(points[i], text, side));
    labels[i] = { text, ...side };
  }
  return labels;
}

function boxOf([x, y], text, { dx, dy, anchor }) {
  const length = measure.measureText(text).width + 2;
  const left = x + dx - { start: 0, middle: length / 2, end: length }[anchor];
  return { left, right: left + length, top: y + dy - LINE + 3, bottom: y + dy + 3 };
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
