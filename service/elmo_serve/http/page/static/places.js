// The tokens of the page in one list: where each is, and which are the same word.

/** Map the tokens of each sentence to places `{sentence, token, word}` in reading order. */
export function placesOf(sentences) {
  return sentences.flatMap((tokens, sentence) =>
    tokens.map((word, token) => ({ sentence, token, word })),
  );
}

/** Tell whether two places hold the same word, in any case. */
export const sameWord = (a, b) => a.word.toLowerCase() === b.word.toLowerCase();

/** Letters that two forms of a word begin with at least: "bank", "banks". */
const STEM = 4;

/** Tell whether a token is a word: punctuation is none. */
export const isWord = ({ word }) => /[\p{L}\p{N}]/u.test(word);

/** Tell whether two places hold forms of one word: one begins with the other. */
export function sameStem(a, b) {
  if (sameWord(a, b)) return true;
  const [short, long] = [a, b].map(({ word }) => word.toLowerCase()).sort((x, y) => x.length - y.length);
  return short.length >= STEM && long.startsWith(short);
}

/**
 * Return the number of the place to begin with: `word`, else the longest word that recurs, else the
 * longest with another form, else the longest word, else 0.
 */
export function firstPlace(places, word) {
  const wanted = places.findIndex((place) => place.word.toLowerCase() === word?.toLowerCase());
  if (wanted >= 0) return wanted;
  const elsewhere = (same) => (place) => places.some((other) => other !== place && same(other, place));
  const words = places.filter(isWord);
  const found = [elsewhere(sameWord), elsewhere(sameStem), () => true]
    .map((rule) => words.filter(rule)).find((some) => some.length > 0) ?? [];
  const longest = found.reduce((best, place) => (place.word.length > best.word.length ? place : best), found[0]);
  return Math.max(0, places.indexOf(longest));
}

/**
 * Return up to `most` other places to compare with one: the same word first, then the places with
 * the largest cosines.
 */
export function comparedWith(places, cosines, reference, most) {
  const others = places.map((_, i) => i).filter((i) => i !== reference);
  const same = (i) => Number(sameWord(places[i], places[reference]));
  return others.sort((a, b) => same(b) - same(a) || cosines[b] - cosines[a]).slice(0, most);
}

/** Return "bank in sentence 2" for a place. */
export const named = (place) => `${place.word} in sentence ${place.sentence + 1}`;
