// Says what happens, and what went wrong.

import { byId, element } from "./dom.js";

/** Say what the page does or has done; a screen reader reads it out, the same words only once. */
export function say(words) {
  if (byId("status").textContent !== words) byId("status").textContent = words;
}

/**
 * Say why there are no vectors. `again` is what the button "Try again" does, which is offered where
 * the same request may succeed.
 */
export function showRefusal(refusal, again) {
  const faults = refusal.faults.map(({ pointer, detail }) => element("li", {}, element("code", {}, pointer), ` ${detail}`));
  const wait = refusal.retrySeconds === null ? null
    : element("p", {}, `Try again in ${Math.max(1, Math.ceil(refusal.retrySeconds))} s.`);
  const id = refusal.id && element("p", { class: "hint" }, "Request id, for the server's log: ", element("code", {}, refusal.id));
  const parts = [
    element("h2", {}, refusal.title),
    element("p", {}, refusal.detail),
    faults.length > 0 && element("ul", {}, ...faults),
    wait,
    id,
    refusal.canPass && element("button", { type: "button", onclick: again }, "Try again"),
  ];
  byId("refusal").replaceChildren(...parts.filter(Boolean));
  byId("refusal").hidden = false;
}

export function hideRefusal() {
  byId("refusal").hidden = true;
}

/** List the reasons to doubt the numbers of a text. */
export function showDoubts(details) {
  byId("warnings").replaceChildren(...(details.length === 0 ? [] : [
    element("ul", { class: "warnings" }, ...details.map((detail) => element("li", {}, `Warning: ${detail}`))),
  ]));
}
