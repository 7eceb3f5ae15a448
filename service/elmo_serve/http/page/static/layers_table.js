// The cosines of one token with some others: in every layer, and in one sentence.

import { byId, element } from "./dom.js";
import { fixed } from "./numbers.js";
import { named, sameWord } from "./places.js";
import { directionOf } from "./reading.js";
import { badge } from "./shapes.js";

const NEIGHBOURS = 2;

/** Show the table. `columns` are `{name, short, cosines, isShown}`; `rows` are numbers of places. */
export function showLayers({ places, columns, rows, reference, sentences }) {
  const head = columns.map(({ name, short, isShown }) =>
    element("th", { scope: "col", class: isShown ? "is-shown" : null },
      element("span", { class: "long" }, name), element("span", { class: "short", "aria-hidden": "true" }, short)));
  const body = rows.map((i) =>
    element("tr", {}, element("th", { scope: "row" }, ...inContext(places[i], sentences)),
      ...columns.map(({ cosines, isShown }) => cell(cosines[i], isShown))));
  byId("layers").replaceChildren(
    element("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Table of cosines" },
      element("table", { class: "layers" },
        element("caption", {}, `Cosine with ${named(places[reference])}`),
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "token"), ...head)),
        element("tbody", {}, ...body))));
}

function cell(cosine, isShown) {
  const made = element("td", { class: isShown ? "is-shown" : null },
    element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "bar" })), fixed(cosine));
  made.style.setProperty("--similarity", Math.abs(cosine).toFixed(3));
  made.classList.toggle("is-negative", cosine < 0);
  return made;
}

/** Return a token with two tokens on each side. */
function inContext({ sentence, token, word }, sentences) {
  const tokens = sentences[sentence];
  const before = tokens.slice(Math.max(0, token - NEIGHBOURS), token).join(" ");
  const after = tokens.slice(token + 1, token + 1 + NEIGHBOURS).join(" ");
  return [
    badge(sentence),
    element("span", { class: "unseen" }, `sentence ${sentence + 1}: `),
    element("bdi", { dir: directionOf(tokens) },
      element("span", { class: "context" }, `${before} `),
      element("strong", {}, element("bdi", {}, word)),
      element("span", { class: "context" }, ` ${after}`)),
  ];
}

/**
 * Return the cosines with the other uses of a word, by sense or by sentence: "to lead: 0.10 and
 * 0.18", "sentences 1 and 2: 0.69". `senses` has one for each sentence, or is null.
 */
export function finding({ places, cosines, reference, senses }) {
  const from = places[reference];
  const groups = new Map();
  places.forEach((place, i) => {
    if (i === reference || !sameWord(place, from)) return;
    const name = senses?.[place.sentence] ?? `${from.sentence + 1} and ${place.sentence + 1}`;
    groups.set(name, [...(groups.get(name) ?? []), fixed(cosines[i])]);
  });
  const parts = [...groups].slice(0, 6).map(([name, values]) => `${name}: ${values.join(" and ")}`);
  if (parts.length === 0) return "";
  return `${senses === null ? "sentences " : ""}${parts.join("; ")}`;
}
