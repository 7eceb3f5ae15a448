// All uses of a word in the text of the user's index, in the order of the text.

import { byId, element } from "./dom.js";
import { inSentence } from "./nearest_uses.js";
import { plural, whole } from "./numbers.js";
import { directionOf } from "./reading.js";
import { Refusal } from "./refusal.js";

const LIMIT = 50;

export class WordUses {
  #server;
  #wanted = null;
  #model = null;
  #request = new AbortController();

  constructor(server) {
    this.#server = server;
    byId("word-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#clear();
      this.#wanted = { word: byId("word").value.trim(), offset: 0 };
      this.#ask();
    });
    byId("word-more").addEventListener("click", () => this.#ask());
  }

  /** Show the section for a model with an index alone, and empty it: its uses were of another one. */
  open(info) {
    this.#clear();
    this.#model = info.model;
    byId("words").hidden = info.index === null;
    say("");
  }

  async #ask() {
    this.#cancel();
    const { signal } = this.#request;
    const query = new URLSearchParams({ ...this.#wanted, limit: LIMIT, model: this.#model });
    say("Searching …");
    try {
      this.#show(await this.#server.get(`uses?${query}`, { signal }));
    } catch (error) {
      if (error.name === "AbortError") return;
      say(error instanceof Refusal ? error.detail : "The page has failed; the browser's console has the reason.");
      if (!(error instanceof Refusal)) throw error;
    }
  }

  #show({ word, count, uses, index }) {
    this.#wanted.offset += uses.length;
    const shown = this.#wanted.offset;
    byId("word-uses").append(...uses.map(({ sentence, token, line }) =>
      element("li", {}, element("span", { class: "cosine" }, line === null ? "" : whole(line)),
        element("span", { class: "use", dir: directionOf(sentence) }, ...inSentence(sentence, token)))));
    byId("word-more").hidden = shown >= count;
    say(`${plural(count, "use")} of “${word}” in the text “${index.text}”${shown < count ? `; the first ${whole(shown)} are shown` : ""}.`);
  }

  #clear() {
    this.#cancel();
    byId("word-uses").replaceChildren();
    byId("word-more").hidden = true;
  }

  #cancel() {
    this.#request.abort();
    this.#request = new AbortController();
  }
}

function say(words) {
  byId("word-status").textContent = words;
}
