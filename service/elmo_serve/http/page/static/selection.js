// The choice of vectors: one layer, the average, or a mixture with its sliders and tasks.

import { byId, element } from "./dom.js";
import { percent } from "./numbers.js";
import { softmax } from "./vectors.js";

const SCALAR_RANGE = { min: -5, max: 5, step: 0.05 };
const GAMMA_RANGE = { min: 0, max: 5, step: 0.05 };
const MOST_GAMMA = 1000;

export class Selection {
  #root = byId("selection");
  #layers = 0;
  #tasks = [];
  #value = null;
  #mix = null;
  #changed;

  /** `changed()` is called after each change by the user; `value` has the selection. */
  constructor(changed) {
    this.#changed = changed;
  }

  get value() {
    return this.#value;
  }

  /** Show the choices of a model; its top layer is chosen first. */
  show(layers, tasks) {
    this.#layers = layers;
    this.#tasks = tasks;
    this.#mix = { kind: "mix", weights: new Array(layers).fill(0), gamma: 1, task: null };
    this.#value = { kind: "layer", layer: layers - 1 };
    const choices = [...Array(layers).keys(), "average", "mix"].map((value) => this.#choice(value));
    this.#root.replaceChildren(
      element("fieldset", { class: "segments" }, element("legend", { class: "unseen" }, "Layer or mixture"), ...choices),
      element("p", { class: "hint", id: "selection-words" }),
      this.#mixture());
    this.#tell();
  }

  #choice(value) {
    const name = { average: "Average", mix: "Mixture" }[value] ?? layerName(value);
    const isChosen = value === this.#layers - 1;
    return element("label", { class: "segment" },
      element("input", { type: "radio", name: "selection", value, checked: isChosen, onchange: () => this.#choose(value) }),
      element("span", {}, name));
  }

  #choose(value) {
    if (value === "mix") this.#value = this.#mix;
    else this.#value = value === "average" ? { kind: "average" } : { kind: "layer", layer: value };
    this.#tell();
    this.#changed();
  }

  #mixture() {
    const sliders = this.#mix.weights.map((_, layer) =>
      this.#slider(`weight-${layer}`, `s${subscript(layer)}`, layerName(layer), SCALAR_RANGE, (value) =>
        this.#set({ weights: this.#mix.weights.with(layer, value), task: null })));
    const gamma = this.#slider("gamma", "γ", "scale", GAMMA_RANGE, (value) => this.#set({ gamma: value, task: null }));
    return element("div", { id: "mixture", hidden: true },
      this.#taskChoice(), element("div", { class: "sliders" }, ...sliders, gamma));
  }

  #slider(id, symbol, name, range, changed) {
    const take = (text) => {
      const value = Number(text);
      if (text !== "" && Number.isFinite(value) && Math.abs(value) <= MOST_GAMMA) changed(value);
    };
    return element("div", { class: "slider" },
      element("label", { for: id }, element("b", {}, symbol), ` ${name} `, element("output", { for: id, id: `${id}-share` })),
      element("input", { type: "range", id, ...range, oninput: (event) => take(event.target.value) }),
      element("input", { type: "number", id: `${id}-exact`, step: "any", "aria-label": `${symbol} ${name}, exact`,
        oninput: (event) => take(event.target.value), onchange: () => this.#tell() }));
  }

  #taskChoice() {
    const options = this.#tasks.map((task) =>
      element("option", { value: task.name, disabled: task.layer_norm },
        task.layer_norm ? `${task.name} (with layer norm: only the server can compute it)` : task.name));
    const empty = this.#tasks.length === 0;
    return element("p", { class: "field" }, element("label", { for: "task" }, "Task"),
      element("select", { id: "task", onchange: (event) => this.#take(event.target.value) },
        element("option", { value: "" }, empty ? "none registered: your own weights" : "your own weights"), ...options));
  }

  #take(name) {
    const task = this.#tasks.find((each) => each.name === name);
    this.#set(task === undefined ? { task: null } : { weights: task.weights, gamma: task.gamma, task: name });
  }

  #set(changes) {
    this.#mix = { ...this.#mix, ...changes };
    this.#value = this.#mix;
    this.#tell();
    this.#changed();
  }

  /** Bring the controls and the words in line with the selection. */
  #tell() {
    const isMix = this.#value.kind === "mix";
    byId("mixture").hidden = !isMix;
    byId("selection-words").textContent = inWords(this.#value, this.#layers);
    if (!isMix) return;
    const { weights, gamma, task } = this.#mix;
    byId("task").value = task ?? "";
    softmax(weights).forEach((share, layer) => {
      fill(`weight-${layer}`, weights[layer]);
      byId(`weight-${layer}-share`).textContent = percent(share);
    });
    fill("gamma", gamma);
  }
}

/** Return the name of a layer. */
export const layerName = (layer) => `Layer ${layer}`;

/** Return the name of a selection. */
export function nameOf(selection) {
  if (selection.kind === "layer") return layerName(selection.layer).toLowerCase();
  return selection.kind === "average" ? "average" : `mixture${selection.task === null ? "" : ` of ${selection.task}`}`;
}

function inWords(selection, layers) {
  if (selection.kind === "average") return `The plain mean of all ${layers} layers. Layer 0 is one of them, so that the uses of a word differ less than in layer ${layers - 1}.`;
  if (selection.kind === "mix")
    return "γ times the sum of the layers, each weighted by the softmax of the s: the mixture that a task learns. γ scales the map and moves no cosine.";
  if (selection.layer === 0) return "Layer 0 is computed from the letters of a word alone: the same word has the same vector everywhere.";
  return `Layer ${selection.layer} of ${layers - 1}: its LSTMs run over the sentence from both ends, so that a vector depends on every token.`;
}

/** Show a value in its slider and its field, without moving the cursor of a field in use. */
function fill(id, value) {
  byId(id).value = value;
  const exact = byId(`${id}-exact`);
  if (Number(exact.value) !== value || exact.value === "") exact.value = value;
}

const subscript = (number) => [...String(number)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join("");
