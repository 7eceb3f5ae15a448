// The nearest uses of the chosen token in an indexed text, asked for on a button alone.

import { neighboursBody } from "./bodies.js";
import { byId, element } from "./dom.js";
import { fixed, plural, whole } from "./numbers.js";
import { named, sameStem } from "./places.js";
import { directionOf } from "./reading.js";
import { Refusal } from "./refusal.js";

const AROUND = 9;
/** While the text is embedded the page shows how far that is, more often than `Retry-After` asks. */
const LONGEST_WAIT_SECONDS = 5;

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
    this.#wanted = { body, word: place.word, name: `${named(place)}, ${vectors}` };
    byId("uses-ask").textContent = `Find the nearest uses of ${place.word}`;
  }

  async #ask() {
    this.#cancel();
    const { body, word, name } = this.#wanted;
    const { signal } = this.#request;
    say("Searching …");
    try {
      const response = await this.#server.post("neighbours", body, { signal });
      this.#show(await response.json(), word, name);
    } catch (error) {
      if (error.name === "AbortError") return;
      say(error instanceof Refusal ? error.detail : "The page has failed; the browser's console has the reason.");
      if (!(error instanceof Refusal)) throw error;
      if (error.status === 503 && error.retrySeconds !== null) this.#askAgain(error);
    }
  }

  /** Ask again after `Retry-After`: the first search waits until the server has embedded its text. */
  #askAgain({ detail, retrySeconds }) {
    const seconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, Math.ceil(retrySeconds)));
    say(`${detail} The page asks again in ${seconds} s.`);
    this.#timer = setTimeout(() => this.#ask(), 1000 * seconds);
  }

  #cancel() {
    clearTimeout(this.#timer);
    this.#request.abort();
    this.#request = new AbortController();
  }

  #show({ neighbours, static: words, index }, word, name) {
    const isOther = (use) => !sameStem({ word }, use);
    const uses = neighbours.map(({ sentence, token, line, cosine }) =>
      element("li", { class: isOther({ word: sentence[token] }) && "is-other" }, element("span", { class: "cosine" }, fixed(cosine)), element("span", { class: "use", dir: directionOf(sentence) }, ...inSentence(sentence, token), line === null ? "" : element("span", { class: "hint" }, ` line ${whole(line)}`))));
    const alone = words.map(({ word, cosine }) =>
      element("li", {}, element("span", { class: "cosine" }, fixed(cosine)), element("bdi", {}, word)));
    byId("uses").replaceChildren(
      part("In their sentences", `Nearest to ${name}`, uses, "No other use is in the text."),
      part("Without a sentence", "Nearest in layer 0, which is computed from letters alone", alone, "No word is near."));
    const others = neighbours.filter(({ sentence, token }) => isOther({ word: sentence[token] })).length;
    say(`The nearest of ${plural(index.tokens, "token")} in ${textName(index.text)}. ${plural(others, "use")} of other words ${others === 1 ? "is" : "are"} grey.`);
  }
}

/** Return the name of a text in words; `uses` is the one that comes with the program. */
const textName = (text) => (text === "uses" ? "the text that comes with the program" : `the text “${text}”`);

function part(title, words, items, none) {
  return element("div", {}, element("h3", {}, title), element("p", { class: "hint" }, words),
    items.length > 0 ? element("ol", { class: "uses" }, ...items) : element("p", {}, none));
}

/** Return a use with the tokens around it. */
export function inSentence(sentence, token) {
  const start = Math.max(0, token - AROUND);
  const end = token + 1 + AROUND;
  const before = (start > 0 ? "… " : "") + sentence.slice(start, token).join(" ");
  const after = sentence.slice(token + 1, end).join(" ") + (end < sentence.length ? " …" : "");
  return [`${before} `, element("strong", {}, sentence[token]), ` ${after}`];
}

function say(words) {
  byId("uses-status").textContent = words;
}
