// The sentences as tokens, each with its cosine. The tokens are one group of radio buttons, so that
// the arrow keys choose among them and a screen reader says which one is chosen.

import { byId, element } from "./dom.js";
import { fixed } from "./numbers.js";
import { named } from "./places.js";
import { directionOf } from "./reading.js";
import { badge, shapeName } from "./shapes.js";

export class Tokens {
  #root = byId("tokens");
  #labels = [];
  #places = [];
  #on;

  /** `on.choose(place)` when one is chosen, `on.point(place or null)` while the mouse is over one. */
  constructor(on) {
    this.#on = on;
    this.#root.addEventListener("change", (event) => on.choose(Number(event.target.value)));
    this.#root.addEventListener("pointerover", (event) => this.#pointed(event));
    this.#root.addEventListener("pointerleave", () => on.point(null));
    this.#root.addEventListener("keydown", (event) => this.#upOrDown(event));
  }

  /** Show the tokens of a new text. */
  show(places, sentences) {
    this.#places = places;
    this.#labels = places.map((place, number) => label(place, number));
    const items = sentences.map((words, sentence) =>
      element("li", { class: "sentence" },
        element("span", { class: "sentence-name" }, badge(sentence), `${sentence + 1}`,
          element("span", { class: "unseen" }, ` (${shapeName(sentence)})`)),
        element("span", { class: "tokens", dir: directionOf(words) }, ...this.#labels.filter((_, i) => places[i].sentence === sentence))));
    this.#root.replaceChildren(
      element("p", { class: "reference" }),
      element("fieldset", {},
        element("legend", { class: "unseen" }, "The token that all others are compared with"),
        element("ol", {}, ...items)));
  }

  /** Show the cosines with one token. */
  update({ cosines, reference, chosen }) {
    this.#labels.forEach((made, i) => {
      const [input, , value] = made.children;
      input.checked = i === chosen;
      made.classList.toggle("is-reference", i === reference);
      made.classList.toggle("is-negative", cosines[i] < 0);
      made.style.setProperty("--similarity", Math.abs(cosines[i]).toFixed(3));
      value.textContent = i === reference ? "this" : fixed(cosines[i]);
    });
    this.#root.querySelector(".reference").textContent = `Compared with ${named(this.#places[reference])}.`;
  }

  #pointed(event) {
    if (event.pointerType === "touch") return;
    const input = event.target.closest(".token")?.querySelector("input");
    this.#on.point(input ? Number(input.value) : null);
  }

  /** Up and Down go to the nearest token of the sentence before or after. */
  #upOrDown(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const from = this.#places[Number(event.target.value)];
    if (step === undefined || from === undefined) return;
    event.preventDefault();
    const wanted = this.#places.map((place, i) => [place, i])
      .filter(([place]) => Math.sign(place.sentence - from.sentence) === step)
      .sort(([a], [b]) => Math.abs(a.sentence - from.sentence) - Math.abs(b.sentence - from.sentence)
        || Math.abs(a.token - from.token) - Math.abs(b.token - from.token))[0];
    if (wanted === undefined) return;
    this.#labels[wanted[1]].querySelector("input").focus();
    this.#on.choose(wanted[1]);
  }
}

function label(place, number) {
  return element("label", { class: "token" },
    element("input", { type: "radio", name: "token", value: number }),
    element("bdi", { class: "word" }, place.word),
    element("span", { class: "value" }),
    element("span", { class: "bar", "aria-hidden": "true" }));
}
