// The examples: four words with two meanings each.

export const EXAMPLES = [
  {
    word: "lead",
    sentences: [
      "The pipes are made of lead.",
      "Copper and lead are mined here.",
      "He will lead the army.",
      "You must lead them to the river.",
    ],
  },
  {
    word: "spring",
    sentences: [
      "Flowers bloom in early spring.",
      "Birds return in late spring.",
      "A steel spring pushes the valve.",
      "A spring pulls the door shut.",
    ],
  },
  {
    word: "play",
    sentences: [
      "Children play in the park.",
      "The boys play outside after school.",
      "The play opened in London.",
      "The play has three acts.",
    ],
  },
  {
    word: "bank",
    sentences: [
      "We sat on the river bank.",
      "Grass grows on the muddy bank.",
      "The bank lent him money.",
      "The bank refused the loan.",
    ],
  },
];

/** An upper bound on the tokens of the first example: the page runs it when it opens. */
export const FIRST_TOKENS = 30;
