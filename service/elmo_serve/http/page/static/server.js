// Requests to the server that sent the page. The API key stays in this module's memory.

import { answeredByAnother, refusalOf, unreachable } from "./refusal.js";

export class Server {
  #key = null;
  #asking = null;
  #askForKey;

  /** `askForKey(reason)` returns a promise of a key, or of null when the user gives none. */
  constructor(askForKey) {
    this.#askForKey = askForKey;
  }

  /** Whether the server wanted a key and got one. */
  get usesKey() {
    return this.#key !== null;
  }

  async get(path, { signal } = {}) {
    return (await this.#request(path, { signal })).json();
  }

  async post(path, body, { accept = "application/json", signal } = {}) {
    return this.#request(path, {
      method: "POST",
      signal,
      headers: { "Content-Type": "application/json", Accept: accept },
      body: JSON.stringify(body),
    });
  }

  async #request(path, options) {
    for (;;) {
      const key = this.#key;
      const headers = { ...options.headers };
      if (key !== null) headers.Authorization = `Bearer ${key}`;
      const response = await answered(path, { ...options, headers });
      if (response.headers.get("Content-Type")?.startsWith("text/html") && response.ok) throw answeredByAnother();
      if (response.ok) return response;
      const refusal = await refusalOf(response);
      if (response.status !== 401 || !(await this.#newKey(key))) throw refusal;
    }
  }

  /** Ask for another key than `used`, once for all requests that wait for one. */
  async #newKey(used) {
    if (this.#key !== used) return true;
    this.#asking ??= this.#askForKey(used === null ? "This server asks for a key." : "The server did not accept that key.");
    const key = await this.#asking;
    this.#asking = null;
    if (key !== null) this.#key = key;
    return key !== null;
  }
}

async function answered(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
}
