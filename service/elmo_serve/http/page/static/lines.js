// The curl and the Python lines that give the numbers of the page.

import { embedBody, neighboursBody, selected } from "./bodies.js";
import { byId, element } from "./dom.js";
import { significant } from "./numbers.js";
import { named } from "./places.js";

const FIRST = 4;

/**
 * Show the lines. `call` is `{url, texts, tokenizer, model, needsKey}`; `vector` is that of the
 * reference, as the server sends it.
 */
export function showLines({ call, selection, places, reference, vector, layers }) {
  const place = places[reference];
  const index = selection.kind === "layer" ? `[${place.sentence}][0][${place.token}]` : `[${place.sentence}][${place.token}]`;
  const numbers = Array.from(vector.slice(0, FIRST), significant).join(", ");
  byId("lines").replaceChildren(
    block("lines-python", "Python: the cosines of all tokens", "Prints the numbers of “Similarity”. The client: pip install ./client, in a clone of elmo-serve.",
      python(call, selection, places, reference, layers)),
    block("lines-embed", "curl: the vectors", `embeddings${index}, of ${named(place)}, begins ${numbers}, …`,
      curl(call, "embed", spaced(embedBody(call, selected(selection))))),
    block("lines-neighbours", "curl: the nearest uses", `Ten uses of words near to ${named(place)}, and the nearest words.`,
      curl(call, "neighbours", spaced(neighboursBody(call, selection, place)))));
}

function block(id, title, words, text) {
  const copied = element("span", { role: "status", class: "hint" });
  const code = element("code", { id }, text);
  const copy = async () => {
    copied.textContent = (await copyText(text, code)) ? "Copied." : "Selected: copy it with your keyboard.";
  };
  return element("details", { class: "lines", open: byId(id)?.closest("details").open ?? false },
    element("summary", {}, title),
    element("div", { class: "row spread" }, element("p", { class: "hint" }, words),
      element("span", { class: "row" }, copied,
        element("button", { type: "button", "aria-label": `Copy ${title}`, onclick: copy }, "Copy"))),
    element("pre", {}, code));
}

/** Copy a text; where the browser allows no copying, select it instead and return false. */
async function copyText(text, code) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(code);
    return false;
  }
}

/** Return JSON with a space after each comma and colon; Python reads it as well. */
function spaced(value) {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${spaced(each)}`);
  return `{${members.join(", ")}}`;
}

function curl({ url, needsKey }, path, body) {
  const quoted = `'${body.replaceAll("'", "'\\''")}'`;
  return [
    `curl -sS --fail-with-body ${url}/${path} \\`,
    "  -H 'Content-Type: application/json' \\",
    ...(needsKey ? ["  -H \"Authorization: Bearer $ELMO_API_KEY\" \\"] : []),
    `  -d ${quoted}`,
  ].join("\n");
}

function python(call, selection, places, reference, layers) {
  const { url, texts, tokenizer, model, needsKey } = call;
  const key = needsKey ? ", api_key=os.environ[\"ELMO_API_KEY\"]" : "";
  const options = [
    ...(tokenizer ? [`tokenizer=${JSON.stringify(tokenizer)}`] : []),
    ...Object.entries(selected(selection)).map(([name, value]) => `${name}=${spaced(value)}`),
  ].join(", ");
  const rows = selection.kind === "layer" ? "each.vectors[0]" : "each.vectors";
  return [
    ...(needsKey ? ["import os", ""] : []),
    "import numpy as np",
    "from elmo_client import Client",
    "",
    "texts = [",
    ...texts.map((text) => `    ${JSON.stringify(text)},`),
    "]",
    `with Client(${JSON.stringify(url)}, model=${JSON.stringify(model)}${key}) as elmo:`,
    `    found, means = elmo.embed_text(texts, ${options}), elmo.centre()`,
    ...centre(selection, layers),
    `vectors = np.concatenate([${rows} for each in found]) - centre`,
    "unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)",
    "tokens = [token for each in found for token in each.tokens]",
    `for token, cosine in zip(tokens, unit @ unit[${reference}]):`,
    "    print(f\"{cosine:6.2f}  {token}\")",
  ].join("\n");
}

/** Return the Python lines that mix the means of the layers as the layers are mixed. */
function centre(selection, layers) {
  if (selection.kind === "layer") return [`centre = means[${selection.layer}]`];
  if (selection.kind === "average") return ["centre = np.mean(means, axis=0)"];
  const scalars = Array.from({ length: layers }, (_, layer) => selection.weights[layer]);
  return [
    `weights = np.exp(np.array(${spaced(scalars)}) - ${Math.max(...scalars)})`,
    `centre = ${selection.gamma} * weights @ means / weights.sum()`,
  ];
}
