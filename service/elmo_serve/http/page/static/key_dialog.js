// Asks for an API key. The key is returned and stored nowhere else.

import { byId } from "./dom.js";

/** Return a promise of the key; null when the user cancels. */
export function askForKey(reason) {
  const dialog = byId("key-dialog");
  const field = byId("key");
  byId("key-reason").textContent = reason;
  field.value = "";
  byId("key-cancel").onclick = () => dialog.close("");
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    let key = null;
    dialog.querySelector("form").onsubmit = () => {
      key = field.value.trim() || null;
    };
    dialog.onclose = () => {
      field.value = "";
      resolve(key);
    };
  });
}
