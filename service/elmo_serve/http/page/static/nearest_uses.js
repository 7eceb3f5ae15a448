// The nearest uses of the chosen token in an indexed text, asked for on a button alone.

import { neighboursBody } from "./bodies.js";
import { byId, element } from "./dom.js";
import { fixed } from "./numbers.js";
import { named } from "./places.js";
import { Refusal } from "./refusal.js";

const AROUND = 9;

export class NearestUses {
  #server;
  #wanted = null;
  #request = new AbortController();
  #timer = null;

  constructor(server) {
    this.#server = server;
    byId("uses-ask").addEventListener("click", () => this.#ask());
  }

  /** Empty the section: its neighbours were those of another text. */
  clear() {
    this.#cancel();
    byId("uses").replaceChildren();
    byId("uses-status").textContent = "";
  }

  /** Set what the button asks for; neighbours on the page stay, under the name of their token. */
  offer({ call, selection, place, vectors }) {
    const body = neighboursBody(call, selection, place);
    if (JSON.stringify(body) === JSON.stringify(this.#wanted?.body)) return;
    this.#cancel();
    this.#wanted = { body, name: `${named(place)}, ${vectors}` };
    byId("uses-ask").textContent = `Find the nearest uses of ${place.word}`;
  }

  async #ask() {
    this.#cancel();
    const { body, name } = this.#wanted;
    const { signal } = this.#request;
    say("Searching …");
    try {
      const response = await this.#server.post("neighbours", body, { signal });
      this.#show(await response.json(), name);
    } catch (error) {
      if (error.name === "AbortError") return;
      say(error instanceof Refusal ? error.detail : "The page has failed; the browser's console has the reason.");
      if (!(error instanceof Refusal)) throw error;
      if (error.status === 503 && error.retrySeconds !== null) this.#askAgain(error);
    }
  }

  /** Ask again after `Retry-After`: the first search waits until the server has embedded its text. */
  #askAgain({ detail, retrySeconds }) {
    const seconds = Math.max(1, Math.ceil(retrySeconds));
    say(`${detail} The page asks again in ${seconds} s.`);
    this.#timer = setTimeout(() => this.#ask(), 1000 * seconds);
  }

  #cancel() {
    clearTimeout(this.#timer);
    this.#request.abort();
    this.#request = new AbortController();
  }

  #show({ neighbours, static: words, index }, name) {
    const uses = neighbours.map(({ sentence, token, cosine }) =>
      element("li", {}, element("span", { class: "cosine" }, fixed(cosine)), element("span", { class: "use" }, ...inSentence(sentence, token))));
    const alone = words.map(({ word, cosine }) =>
      element("li", {}, element("span", { class: "cosine" }, fixed(cosine)), element("bdi", {}, word)));
    byId("uses").replaceChildren(
      part("In their sentences", `Nearest to ${name}`, uses, "No other use is in the text."),
      part("Without a sentence", "Nearest in the token layer, which is computed from letters alone", alone, "No word is near."));
    say(`${neighbours.length} uses in the text “${index.text}”.`);
  }
}

function part(title, words, items, none) {
  return element("div", {}, element("h3", {}, title), element("p", { class: "hint" }, words),
    items.length > 0 ? element("ol", { class: "uses" }, ...items) : element("p", {}, none));
}

/** Return a use with the tokens around it. */
function inSentence(sentence, token) {
  const start = Math.max(0, token - AROUND);
  const end = token + 1 + AROUND;
  const before = (start > 0 ? "… " : "") + sentence.slice(start, token).join(" ");
  const after = sentence.slice(token + 1, end).join(" ") + (end < sentence.length ? " …" : "");
  return [`${before} `, element("strong", {}, sentence[token]), ` ${after}`];
}

function say(words) {
  byId("uses-status").textContent = words;
}
