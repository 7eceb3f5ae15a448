// The examples: four words with two meanings each, the sense of the word in each sentence.

export const EXAMPLES = [
  {
    word: "lead",
    senses: ["lead, the metal", "lead, the metal", "to lead", "to lead"],
    sentences: [
      "The pipes are made of lead.",
      "Copper and lead are mined here.",
      "He will lead the army.",
      "You must lead them to the river.",
    ],
  },
  {
    word: "spring",
    senses: ["spring, the season", "spring, the season", "spring, of steel", "spring, of steel"],
    sentences: [
      "Flowers bloom in early spring.",
      "Birds return in late spring.",
      "A steel spring pushes the valve.",
      "A spring pulls the door shut.",
    ],
  },
  {
    word: "play",
    senses: ["to play", "to play", "a play", "a play"],
    sentences: [
      "Children play in the park.",
      "The boys play outside after school.",
      "The play opened in London.",
      "The play has three acts.",
    ],
  },
  {
    word: "bank",
    senses: ["bank, of a river", "bank, of a river", "bank, for money", "bank, for money"],
    sentences: [
      "We sat on the river bank.",
      "Grass grows on the muddy bank.",
      "The bank lent him money.",
      "The bank refused the loan.",
    ],
  },
];

/** Return the sense of each sentence, where the texts are those of an example, else null. */
export const sensesOf = (texts) =>
  EXAMPLES.find(({ sentences }) => JSON.stringify(sentences) === JSON.stringify(texts))?.senses ?? null;

/** Return the examples of a model: words of the user's index, where it has some. */
export const examplesOf = ({ index }) => index?.examples ?? EXAMPLES;

/** Return an upper bound on the tokens of some texts. */
export const mostTokens = (texts) => texts.join(" ").match(/[\p{L}\p{N}]+|\S/gu).length;
