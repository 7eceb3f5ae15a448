// The bodies of the requests that the page sends and shows.

/** Return the fields of a selection for `POST /embed`. */
export function selected(selection) {
  if (selection.kind === "layer") return { layers: [selection.layer] };
  if (selection.kind === "average") return { layers: "average" };
  if (selection.task !== null) return { task: selection.task };
  return { mix: { weights: selection.weights, gamma: selection.gamma } };
}

/** Return a body for `POST /embed`; `call` is `{texts, tokenizer, model}`, `fields` what is wanted. */
export function embedBody({ texts, tokenizer, model }, fields) {
  return { text: texts, ...chosen(tokenizer), model, ...fields };
}

/** Return a body for `POST /neighbours` of one place. */
export function neighboursBody({ texts, tokenizer, model }, selection, place) {
  const fields = selection.kind === "layer" ? { layers: selection.layer } : selected(selection);
  return { text: texts[place.sentence], token: place.token, ...chosen(tokenizer), model, ...fields };
}

const chosen = (tokenizer) => (tokenizer ? { tokenizer } : {});
