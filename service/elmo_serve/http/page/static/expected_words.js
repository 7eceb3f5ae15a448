// What the language model expects: surprisal a word, and the substitutes of the chosen one.

import { byId, element } from "./dom.js";
import { fixed } from "./numbers.js";
import { named } from "./places.js";
import { Refusal } from "./refusal.js";

const WORDS = 10;

export class ExpectedWords {
  #server;
  #wanted = null;
  #request = new AbortController();

  constructor(server) {
    this.#server = server;
    byId("expected-ask").addEventListener("click", () => this.#ask());
    byId("expected-direction").addEventListener("change", () => this.#ask());
  }

  /** Show the section for a model with a softmax alone, and empty it: its words were of another text. */
  clear(info) {
    this.#cancel();
    byId("expected").hidden = !info.softmax;
    byId("expected-words").replaceChildren();
    say("");
  }

  /** Set the token whose sentence the button asks about. */
  offer({ call, place, sentences }) {
    if (this.#wanted?.place === place) return; // an answer that is under way stays
    this.#cancel();
    this.#wanted = { call, place, tokens: sentences[place.sentence] };
    byId("expected-ask").textContent = `Ask about ${place.word}`;
  }

  async #ask() {
    this.#cancel();
    if (this.#wanted === null) return;
    const { call, place, tokens } = this.#wanted;
    const { signal } = this.#request;
    const direction = byId("expected-direction").value;
    const body = { sentences: [tokens], ...(call.model ? { model: call.model } : {}) };
    say("Asking …");
    try {
      const asked = { ...body, positions: [[place.token]], k: WORDS, direction };
      const responses = await Promise.all([
        this.#server.post("score", body, { signal }),
        this.#server.post("substitutes", asked, { signal }),
      ]);
      const [{ scores, vocabulary }, { substitutes }] = await Promise.all(responses.map((each) => each.json()));
      this.#show(tokens, place, scores[0], substitutes[0][0], direction);
      say(`Of ${vocabulary.toLocaleString("en")} words.`);
    } catch (error) {
      if (error.name === "AbortError") return;
      say(error instanceof Refusal ? error.detail : "The page has failed; the browser's console has the reason.");
      if (!(error instanceof Refusal)) throw error;
    }
  }

  #cancel() {
    this.#request.abort();
    this.#request = new AbortController();
  }

  #show(tokens, place, score, words, direction) {
    const bits = score[direction];
    const highest = Math.max(...bits);
    const surprisal = tokens.map((token, i) => {
      const word = element(i === place.token ? "strong" : "span", {}, element("bdi", {}, token));
      const unknown = score.unknown[i] ? " (unknown)" : "";
      const track = element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "bar" }));
      track.style.setProperty("--similarity", bits[i] / highest);
      return element("li", {}, element("span", { class: "cosine" }, fixed(bits[i], 1)),
        element("span", {}, track, word, unknown));
    });
    const expected = words.map(({ word, probability }) =>
      element("li", {}, element("span", { class: "cosine" }, fixed(probability, 3)), element("bdi", {}, word)));
    byId("expected-words").replaceChildren(
      part("Surprisal in bits", `How unexpected each word is, ${direction}`, surprisal),
      part("Substitutes", `Expected in the place of ${named(place)}, with probabilities`, expected));
  }
}

function part(title, words, items) {
  return element("div", {}, element("h3", {}, title), element("p", { class: "hint" }, words),
    element("ol", { class: "uses" }, ...items));
}

function say(words) {
  byId("expected-status").textContent = words;
}
