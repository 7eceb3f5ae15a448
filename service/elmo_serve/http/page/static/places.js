// The tokens of the page in one list: where each is, and which are the same word.

/** Map the tokens of each sentence to places `{sentence, token, word}` in reading order. */
export function placesOf(sentences) {
  return sentences.flatMap((tokens, sentence) =>
    tokens.map((word, token) => ({ sentence, token, word })),
  );
}

/** Tell whether two places hold the same word, in any case. */
export const sameWord = (a, b) => a.word.toLowerCase() === b.word.toLowerCase();

/** Return the number of the place to begin with: `word`, else a long word that recurs, else 0. */
export function firstPlace(places, word) {
  const wanted = places.findIndex((place) => place.word.toLowerCase() === word);
  if (wanted >= 0) return wanted;
  const recurs = (place) => places.some((other) => other !== place && sameWord(other, place));
  const length = (number) => (number < 0 ? 0 : places[number].word.length);
  return Math.max(0, places.reduce((best, place, i) =>
    recurs(place) && place.word.length > length(best) ? i : best, -1));
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
