// The result in one sentence: how near the other uses of a word are.

import { fixed } from "./numbers.js";
import { sameWord } from "./places.js";

const MOST = 6;

/**
 * Return the cosines of a place with the other uses of its word, by sense or by sentence: "lead, the
 * metal: 0.69; to lead: 0.10 and 0.18", "sentences 1 and 2: 0.69; 1 and 3: 0.10". `senses` has one
 * for each sentence, or is null. Empty where the word has no other use.
 */
export function finding({ places, cosines, reference, senses }) {
  const from = places[reference];
  const groups = new Map();
  places.forEach((place, i) => {
    if (i === reference || !sameWord(place, from)) return;
    const name = senses?.[place.sentence] ?? `${from.sentence + 1} and ${place.sentence + 1}`;
    groups.set(name, [...(groups.get(name) ?? []), fixed(cosines[i])]);
  });
  const parts = [...groups].slice(0, MOST).map(([name, values]) => `${name}: ${values.join(" and ")}`);
  if (parts.length === 0) return "";
  return `${senses === null ? "sentences " : ""}${parts.join("; ")}`;
}
