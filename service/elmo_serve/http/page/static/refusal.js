// A request that failed, in words that a user can act on.

export class Refusal extends Error {
  /** `retrySeconds` is null where trying again does not help by itself. */
  constructor(title, detail, { status = 0, faults = [], retrySeconds = null, id = "" } = {}) {
    super(`${title}: ${detail}`);
    Object.assign(this, { title, detail, status, faults, retrySeconds, id });
  }

  /** Whether the same request may succeed later, or with a key. */
  get canPass() {
    return this.status < 400 || this.status >= 500 || [401, 408, 409, 429].includes(this.status);
  }
}

/** Return the Refusal of a text that the page itself cannot compare. */
export function unusable(title, detail) {
  return new Refusal(title, detail, { status: 422 });
}

/** Return the Refusal that a response states: a problem document, or whatever a proxy answered. */
export async function refusalOf(response) {
  const problem = await response.json().catch(() => null);
  const seconds = Number(response.headers.get("Retry-After"));
  const more = {
    status: response.status,
    faults: problem?.errors ?? [],
    retrySeconds: response.headers.has("Retry-After") && seconds >= 0 ? seconds : null,
    id: problem?.instance ?? "",
  };
  if (response.status === 401) return new Refusal("API key", "This server needs one of its API keys.", more);
  if (typeof problem?.detail === "string")
    return new Refusal(problem.title ?? `Status ${response.status}`, problem.detail, more);
  const detail = `The server, or a proxy in front of it, answered ${response.status} ${response.statusText} and gave no reason.`;
  return new Refusal("No reason given", detail, more);
}

/** Seconds after which to ask again for a model that is being loaded; for a failed one more. */
const LOADING_SECONDS = 10;

/** Tell whether a model that was asked for is still being loaded: waiting is enough. */
export function isLoading({ status, retrySeconds }) {
  return status === 503 && retrySeconds !== null && retrySeconds <= LOADING_SECONDS;
}

/** Return the Refusal of a request that was answered with a page, such as that of a login. */
export function answeredByAnother() {
  return new Refusal("Not the server's answer", "A proxy answered with a page of its own, perhaps to log in. Load this page again.");
}

/** Return the Refusal of a request that nobody answered. */
export function unreachable() {
  return new Refusal("No answer", "The server cannot be reached. Is it running, and is the network up?");
}
