// A shape and a colour for each sentence: the shape alone tells sentences apart.

import { svg } from "./dom.js";

const SHAPES = [
  ["circle", "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z"],
  ["square", "M-4.5-4.5H4.5V4.5H-4.5Z"],
  ["triangle", "M0-5.6L5.4 4.4H-5.4Z"],
  ["diamond", "M0-6L6 0L0 6L-6 0Z"],
  ["plus", "M-1.8-5.5H1.8V-1.8H5.5V1.8H1.8V5.5H-1.8V1.8H-5.5V-1.8H-1.8Z"],
  ["inverted triangle", "M0 5.6L5.4-4.4H-5.4Z"],
];

/** Return the name of the shape of a sentence. */
export const shapeName = (sentence) => SHAPES[sentence % SHAPES.length][0];

/** Return the shape of a sentence, centred at 0, 0. */
export function shape(sentence) {
  const number = sentence % SHAPES.length;
  return svg("path", { d: SHAPES[number][1], class: `shape colour-${number}` });
}

/** Return the number of a sentence with its shape. */
export function badge(sentence) {
  return svg("svg", { viewBox: "-7 -7 14 14", width: 14, height: 14, class: "badge", "aria-hidden": "true" },
    shape(sentence));
}
