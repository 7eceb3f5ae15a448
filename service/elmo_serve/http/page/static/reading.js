// What the model can read of a text, in words for the user: numbers come out for any text.

import { isWord } from "./places.js";

/**
 * Return sentences that say why the cosines of a text mean little, none where they do. `sentences`
 * are lists of tokens, `tokenizer` the one that cut them, `info` the answer of GET /info.
 */
export function doubts(sentences, tokenizer, info) {
  const [alone] = sentences.map(wordsOf).find((words) => words.length === 1) ?? [];
  return [
    info.format === "random" && "The weights of this model are random: its vectors mean nothing.",
    tokenizer === "characters" && info.tokenizer !== "characters" &&
      "Each token is one character, and the model reads words: these cosines mean little.",
    alone !== undefined && tokenizer !== "characters" &&
      `“${alone}” stands alone, and its vector depends on its sentence: write a sentence around it.`,
    isForeign(sentences.flat(), info.language) &&
      `The model reads ${languageName(info.language)} words, and most tokens here are in another script: these cosines mean little.`,
  ].filter(Boolean);
}

/** Return the direction in which a sentence is written, by its first letter. */
export function directionOf(tokens) {
  return /^\P{L}*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u.test(tokens.join(" ")) ? "rtl" : "ltr";
}

const wordsOf = (tokens) => tokens.filter((word) => isWord({ word }));

/** Tell whether most tokens with letters have none of the script of a language. */
function isForeign(tokens, language) {
  const own = scriptOf(language);
  const words = tokens.filter((token) => /\p{L}/u.test(token));
  return own !== null && 2 * words.filter((word) => !own.test(word)).length > words.length;
}

/** Return a pattern for a letter of the script of a language; null where it has several. */
function scriptOf(language) {
  try {
    return new RegExp(`\\p{Script=${new Intl.Locale(language).maximize().script}}`, "u");
  } catch {
    return null; // no code of a language, or a mixture of scripts, as Japanese has
  }
}

const languageName = (language) => new Intl.DisplayNames(["en"], { type: "language" }).of(language);
