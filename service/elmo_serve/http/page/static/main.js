// Puts the page together: what the user does, what the server answers, what is shown.

import { embedBody } from "./bodies.js";
import { showCard } from "./card.js";
import { byId } from "./dom.js";
import { examplesOf, mostTokens, sensesOf } from "./examples.js";
import { ExpectedWords } from "./expected_words.js";
import { askForKey } from "./key_dialog.js";
import { finding, showLayers } from "./layers_table.js";
import { showLines } from "./lines.js";
import { TokenMap } from "./map.js";
import { hideRefusal, say, showDoubts, showRefusal } from "./messages.js";
import { NearestUses } from "./nearest_uses.js";
import { plural, whole } from "./numbers.js";
import { comparedWith, firstPlace, placesOf } from "./places.js";
import { doubts } from "./reading.js";
import { isLoading, Refusal, unusable } from "./refusal.js";
import { parse } from "./safetensors.js";
import { layerName, nameOf, Selection } from "./selection.js";
import { firstExample, markExample, sentenceForm, showExamples, showModels, tokenizer, written } from "./sentence_form.js";
import { Server } from "./server.js";
import { Tokens } from "./tokens.js";
import { centred, combined, cosines, factors } from "./vectors.js";
import { WordUses } from "./word_uses.js";

const MOST_TOKENS = 400;
/** No text with more characters is sent: 400 tokens of 20 characters. */
const MOST_CHARACTERS = 20 * MOST_TOKENS;
const ROWS = 8;
/** A text that the user has not sent is run by itself where its vectors have no more bytes than this. */
const OPENING_BYTES = 200_000;

const server = new Server(askForKey);
const selection = new Selection(() => moved());
const pointing = { choose: (place) => choose(place), point: (place) => point(place) };
const tokens = new Tokens(pointing);
const map = new TokenMap(pointing);
const uses = new NearestUses(server);
const expected = new ExpectedWords(server);
const words = new WordUses(server);

/** The model: `{info, tasks, means}`; the means come with the first text. Null while it is opened. */
let model = null;
/** The name of the model that was chosen; null for the first one. */
let picked = null;
/** The text that was sent last, `{texts, word}`, until it is shown: it is kept while a model is opened. */
let waiting = null;
/** The text on the page: `{texts, tokenizer, sentences, places, tensors}`. */
let shown = null;
let rows = [];
let chosen = 0;
let pointed = null;
let request = new AbortController();
let opening = null;

/** Ask for a model and begin; while the server is not ready, again after each `Retry-After`. */
async function open(name, isFirst = true) {
  clearTimeout(opening);
  const { signal } = anew();
  picked = name;
  if (shown !== null) waiting ??= { texts: shown.texts, word: null };
  model = shown = null;
  byId("results").hidden = true;
  byId("words").hidden = true;
  const again = () => open(name, false);
  const refusal = await attempt(async () => {
    if (isFirst) say("Asking the server for its model …");
    const info = await described(name, signal);
    const { tasks } = await server.get(`tasks?model=${encodeURIComponent(info.model)}`, { signal });
    model = { info, tasks, means: null };
    showModels(info.models, info.model);
    showCard(info);
    showExamples(examplesOf(info), { submit }, waiting === null && written() === null);
    selection.show(info.layers, tasks);
    words.open(info);
    say("Ready.");
    const { texts, word } = waiting ?? written() ?? firstExample();
    if (waiting !== null || mostTokens(texts) * info.layers * info.dimension * 4 <= OPENING_BYTES)
      await embed(texts, word);
  }, again, (error) => model === null && isLoading(error));
  if (refusal?.status === 503 && refusal.retrySeconds !== null)
    opening = setTimeout(again, 1000 * Math.max(1, refusal.retrySeconds));
}

/** Describe a model; null: the first one, or the next one that can answer where it has failed. */
async function described(name, signal) {
  if (name !== null) return server.get(`info?model=${encodeURIComponent(name)}`, { signal });
  try {
    return await server.get("info", { signal });
  } catch (error) {
    const other = error.status === 503 ? await firstThatAnswers(signal) : null;
    if (other === null) throw error;
    return described(other, signal);
  }
}

/** Return the name of the first model that can answer; null before each is loaded or has failed. */
async function firstThatAnswers(signal) {
  try {
    const { models: lacking = [] } = await server.get("health/ready", { signal });
    const { data } = await server.get("v1/models", { signal }); // names with an @ are those of tasks
    const isReady = ({ id }) => !id.includes("@") && lacking.every(({ model: name }) => name !== id);
    return data.find(isReady)?.id ?? null;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return null; // the reason that the first model gave is the one to show
  }
}

async function submit({ texts, word }) {
  if (texts.length === 0) {
    say("Write a sentence first.");
    return;
  }
  waiting = { texts, word };
  if (model === null) { // the picker names it: no other one may answer
    await open(picked);
    return;
  }
  clearTimeout(opening);
  await attempt(() => embed(texts, word), () => submit({ texts, word }));
}

/** Ask for all layers of the texts, in one request, unless they are on the page already. */
async function embed(texts, word) {
  const wanted = { texts, tokenizer: tokenizer(), model: model.info.model };
  if (shown === null || key(wanted) !== key(shown)) {
    const { signal } = anew();
    const length = texts.join("").length;
    if (length > MOST_CHARACTERS) throw tooLong(length, "character", MOST_CHARACTERS);
    say("Computing the vectors …");
    const response = await server.post(
      "embed", embedBody(wanted, { layers: "all" }), { accept: "application/vnd.safetensors", signal });
    const { metadata, tensors } = parse(await response.arrayBuffer());
    const sentences = JSON.parse(metadata.tokens);
    const places = placesOf(sentences);
    if (places.length === 0) throw unusable("No tokens", "The tokenizer found no token in this text.");
    if (places.length > MOST_TOKENS) throw tooLong(places.length, "token", MOST_TOKENS);
    model.means ??= await meansOf(wanted.model, signal);
    signal.throwIfAborted();
    shown = { ...wanted, sentences, places, tensors };
    say(`${plural(places.length, "token")} in ${plural(texts.length, "sentence")}, cut by the tokenizer ${metadata.tokenizer}.`);
    showDoubts(doubts(sentences, metadata.tokenizer, model.info));
    tokens.show(places, sentences);
    map.show(places);
    uses.clear();
    expected.clear(model.info);
  }
  waiting = null;
  markExample(shown.texts);
  byId("results").hidden = false;
  chosen = firstPlace(shown.places, word);
  pointed = null;
  moved();
}

/** Return the mean of each layer, float32 as the server has them, and name their text. */
async function meansOf(name, signal) {
  const centre = await server.get(`info/centre?model=${encodeURIComponent(name)}`, { signal });
  byId("centre-text").textContent = `the ${plural(centre.tokens, "token")} of the text “${centre.text}” of this server`;
  return centre.layers.map((means) => means.map(Math.fround));
}

/** Compute the rows of the selection anew: no request is sent. */
function moved() {
  if (shown === null) return;
  rows = rowsOf(selection.value);
  map.move(rows);
  compare();
}

function rowsOf(wanted) {
  const layerFactors = factors(wanted, model.info.layers);
  return centred(combined(shown.tensors, layerFactors), model.means, layerFactors);
}

function choose(place) {
  chosen = place;
  pointed = null;
  compare();
}

function point(place) {
  if (place === pointed) return;
  pointed = place;
  compare();
}

/** Show the cosines with the token that is pointed at, else with the chosen one. */
function compare() {
  const reference = pointed ?? chosen;
  const { places, sentences } = shown;
  const found = cosines(rows, reference);
  tokens.update({ cosines: found, reference, chosen });
  map.mark(reference);
  byId("finding").textContent = finding({ places, cosines: found, reference, senses: sensesOf(shown.texts) });
  const compared = comparedWith(places, found, reference, ROWS);
  showLayers({ places, columns: columns(reference, found), rows: compared, reference, sentences });
  const call = { url: address(), texts: shown.texts, tokenizer: shown.tokenizer, model: shown.model, needsKey: server.usesKey };
  if (pointed === null) {
    uses.offer({ call, selection: selection.value, place: places[chosen], vectors: nameOf(selection.value) });
    expected.offer({ call, place: places[chosen], sentences });
  }
  showLines({
    call,
    selection: selection.value,
    places,
    reference,
    vector: combined(shown.tensors, factors(selection.value, model.info.layers))[reference],
    layers: model.info.layers,
  });
}

/** Return the columns of the table: each layer, the average, and the mixture where it is chosen. */
function columns(reference, found) {
  const current = selection.value;
  const column = (name, short, value, isShown) => ({
    name, short, isShown, cosines: isShown ? found : cosines(rowsOf(value), reference),
  });
  const layers = Array.from({ length: model.info.layers }, (_, layer) =>
    column(layerName(layer), String(layer), { kind: "layer", layer }, current.kind === "layer" && current.layer === layer));
  const average = column("Average", "avg", { kind: "average" }, current.kind === "average");
  const mix = current.kind === "mix" ? [column("Mixture", "mix", current, true)] : [];
  return [...layers, average, ...mix];
}

function tooLong(count, noun, most) {
  return unusable("Too long", `This text has ${plural(count, noun)}; the page compares ${whole(most)} at most. Take fewer or shorter sentences.`);
}

/**
 * Run an action and show why it failed, with a button for `again`. Return the Refusal or null. One
 * of which `isWait` is true is no failure: the status says what is waited for.
 */
async function attempt(action, again, isWait = () => false) {
  const main = byId("main");
  main.setAttribute("aria-busy", "true");
  hideRefusal();
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return null; // another action has begun and says when it ends
    if (isWait(error)) {
      say(`${error.detail} ${waiting === null ? "The page begins by itself." : "Your text is kept, and compared then."}`);
      return error;
    }
    main.setAttribute("aria-busy", "false");
    if (!(error instanceof Refusal)) {
      say("The page has failed; the browser's console has the reason. Please report it.");
      throw error;
    }
    byId("results").hidden = true;
    showDoubts([]);
    markExample([]);
    say("There are no vectors; the reason is below.");
    showRefusal(error, again);
    return error;
  }
  main.setAttribute("aria-busy", "false");
  return null;
}

/** Abort what is under way: a late answer is dropped. Return the controller of what begins. */
function anew() {
  request.abort();
  request = new AbortController();
  return request;
}

const key = ({ texts, tokenizer: name, model: of }) => JSON.stringify([texts, name, of]);
const address = () => new URL(".", document.baseURI).href.replace(/\/$/, "");

sentenceForm({ submit, model: (name) => open(name) });
open(null);
