// The form: sentences, examples, tokenizer, model.

import { byId, element } from "./dom.js";
import { EXAMPLES } from "./examples.js";

let examples = [];

/**
 * Set the form up. `on.submit({texts, word})` when the user wants the sentences compared: `word` is
 * that of an example, else null. `on.model(name)` when another model is chosen.
 */
export function sentenceForm(on) {
  const text = byId("text");
  const submit = () => on.submit({ texts: linesOf(text.value), word: null });
  byId("sentences").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
  });
  byId("tokenizer").addEventListener("change", submit);
  byId("model-choice").addEventListener("change", (event) => on.model(event.target.value));
  showExamples(EXAMPLES, on);
}

/** Show the examples of a model; the first one is written where the user has written nothing. */
export function showExamples(found, on, isWritten = true) {
  const text = byId("text");
  examples = found;
  if (isWritten) text.value = examples[0].sentences.join("\n");
  byId("examples").replaceChildren(...examples.map(({ word, sentences }) =>
    element("button", { type: "button", onclick: () => {
      text.value = sentences.join("\n");
      on.submit({ texts: sentences, word });
    } }, word)));
}

/** Return the first example as `on.submit` takes it. */
export const firstExample = () => ({ texts: examples[0].sentences, word: examples[0].word });

/** Return what the user has written, as `on.submit` takes it; null for the first example. */
export function written() {
  const texts = linesOf(byId("text").value);
  return texts.length === 0 || texts.join("\n") === examples[0].sentences.join("\n") ? null : { texts, word: null };
}

/** Return the tokenizer that the user chose; "" for that of the model. */
export const tokenizer = () => byId("tokenizer").value;

/** Show the models of the server where there are several. */
export function showModels(models, current) {
  byId("model-field").hidden = models.length < 2;
  byId("model-choice").replaceChildren(...models.map(({ model, state }) =>
    element("option", { value: model, selected: model === current, disabled: state === "failed" },
      state === "ready" ? model : `${model} (${state})`)));
}

/** Mark the example whose sentences are shown. */
export function markExample(texts) {
  examples.forEach(({ sentences }, i) => {
    byId("examples").children[i].setAttribute("aria-pressed", String(sentences.join("\n") === texts.join("\n")));
  });
}

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
