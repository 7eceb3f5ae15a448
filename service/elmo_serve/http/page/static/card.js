// The model's card: what GET /info tells.

import { byId, element } from "./dom.js";
import { whole } from "./numbers.js";

/** Show the card of the model and the limits of the server. */
export function showCard(info) {
  const facts = [
    ["Name", info.model],
    ["Revision", info.revision],
    ["Format", info.format],
    ["Layers", `${info.layers}: layer 0, which reads one token, and ${info.layers - 1} of LSTMs`],
    ["Width of a vector", whole(info.dimension)],
    ["Parameters", whole(info.parameters)],
    ...(info.trained === null ? [] : [["Trained on", trainedOn(info.trained)]]),
    ["Precision", info.precision],
    ["Tokenizer", `${info.tokenizer} (language ${info.language})`],
    ["Runs on", info.devices.join(", ")],
    ["Version of the server", info.version],
  ];
  const limits = Object.entries(info.limits).map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value === null ? "none" : whole(value))));
  byId("card").replaceChildren(
    element("dl", { class: "facts" }, ...facts.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, String(value))))),
    element("details", {}, element("summary", {}, "Limits in force"),
      element("table", { class: "plain" },
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "limit"), element("th", { scope: "col" }, "value"))),
        element("tbody", {}, ...limits))));
}

/** Return the tokens of the training, and the perplexity where it was measured. */
const trainedOn = ({ tokens, perplexity }) =>
  `${whole(tokens)} tokens${perplexity === null ? "" : `; perplexity of held-out text ${perplexity.toPrecision(4)}`}`;
