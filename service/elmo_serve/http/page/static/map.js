// The map: each token at its first two principal components, with its sentence's shape.

import { byId, element, svg } from "./dom.js";
import { placeLabels } from "./labels.js";
import { fixed, plural, significant } from "./numbers.js";
import { likeBefore, pca } from "./pca.js";
import { isWord, named, sameWord } from "./places.js";
import { shape } from "./shapes.js";

const PADDING = { left: 24, right: 60, top: 28, bottom: 58 };

export class TokenMap {
  #root = byId("map");
  #on;
  #places = [];
  #marks = [];
  #points = null;
  #shares = [0, 0];
  #reference = 0;

  /** `on` as that of `Tokens`: the points of the map choose tokens as well. */
  constructor(on) {
    this.#on = on;
    new ResizeObserver(() => this.#draw()).observe(this.#root);
  }

  /** Show the tokens of a new text. */
  show(places) {
    this.#places = places;
    this.#points = null;
    this.#reference = 0;
    this.#marks = places.map((place, i) => this.#mark(place, i));
    this.#root.replaceChildren(
      svg("svg", { class: "map", role: "img", "aria-labelledby": "map-words" },
        svg("g", { class: "axes" }, svg("line"), svg("line")),
        svg("g", {}, ...this.#marks),
        svg("g", { class: "scale" }, svg("path"), svg("text"))),
      element("p", { class: "hint", id: "map-words" }),
      element("details", {}, element("summary", {}, "The map as a table"), element("div", { class: "points" })));
  }

  /** Compute the places of new vectors; `mark` draws them. */
  move(rows) {
    const { points, shares } = pca(rows);
    this.#points = likeBefore(points, this.#points);
    this.#shares = shares;
    this.#tell();
  }

  /** Draw, and mark the token that the others are compared with and those that are the same word. */
  mark(reference) {
    this.#reference = reference;
    this.#draw();
  }

  #mark(place, number) {
    return svg("g", {
      class: "mark",
      onclick: () => this.#on.choose(number),
      onpointerenter: (event) => event.pointerType === "touch" || this.#on.point(number),
      onpointerleave: () => this.#on.point(null),
    }, svg("circle", { r: 12, class: "target" }), shape(place.sentence), svg("text"),
    svg("title", {}, named(place)));
  }

  #draw() {
    const picture = this.#root.querySelector("svg");
    const width = this.#root.clientWidth;
    if (this.#points === null || picture === null || width === 0) return;
    const height = Math.round(Math.min(430, Math.max(300, width * 0.8)));
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    const view = viewOf(this.#points, width, height);
    const screen = this.#points.map(view.place);
    const labels = placeLabels(screen, this.#places.map(({ word }) => word), this.#order(), { width, height });
    this.#marks.forEach((mark, i) => {
      const [x, y] = screen[i];
      mark.style.setProperty("transform", `translate(${x.toFixed(2)}px, ${y.toFixed(2)}px)`);
      mark.classList.toggle("is-reference", i === this.#reference);
      mark.classList.toggle("is-same", sameWord(this.#places[i], this.#places[this.#reference]));
      write(mark.querySelector("text"), labels[i]);
    });
    drawAxes(picture.querySelector(".axes"), view.place([0, 0]), width, height);
    drawScale(picture.querySelector(".scale"), view.scale, height);
  }

  /** Return the numbers of the tokens in the order in which they get a label; punctuation has none. */
  #order() {
    const here = this.#places[this.#reference];
    const weight = (i) =>
      (i === this.#reference ? 1e6 : 0) + (sameWord(this.#places[i], here) ? 1e3 : 0) + this.#places[i].word.length;
    const shown = this.#places.map((_, i) => i).filter((i) => i === this.#reference || isWord(this.#places[i]));
    return shown.sort((a, b) => weight(b) - weight(a));
  }

  #tell() {
    const [first, second] = this.#shares.map((share) => Math.round(share * 100));
    byId("map-words").textContent =
      `${plural(this.#places.length, "token")}. Across: ${first} % of their variance. Up: ${second} %. The shape is that of the sentence.`;
    const row = ({ word, sentence }, [x, y]) =>
      element("tr", {}, element("th", { scope: "row" }, element("bdi", {}, word)), element("td", {}, String(sentence + 1)),
        element("td", {}, fixed(x, 4)), element("td", {}, fixed(y, 4)));
    const heads = ["token", "sentence", "across", "up"].map((name) => element("th", { scope: "col" }, name));
    this.#root.querySelector(".points").replaceChildren(
      element("table", { class: "plain" }, element("thead", {}, element("tr", {}, ...heads)),
        element("tbody", {}, ...this.#places.map((place, i) => row(place, this.#points[i])))));
  }
}

/** Return the scale (pixels a unit, the same for both axes) and the place of a point. */
function viewOf(points, width, height) {
  const [[left, right], [bottom, top]] = [0, 1].map((axis) => {
    const values = points.map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const inner = [width - PADDING.left - PADDING.right, height - PADDING.top - PADDING.bottom];
  const scale = Math.min(inner[0] / (right - left || 1), inner[1] / (top - bottom || 1));
  const middle = [PADDING.left + inner[0] / 2, PADDING.top + inner[1] / 2];
  const place = ([x, y]) => [
    middle[0] + (x - (left + right) / 2) * scale,
    middle[1] - (y - (bottom + top) / 2) * scale,
  ];
  return { scale, place };
}

function write(text, label) {
  text.textContent = label === null ? "" : label.text;
  if (label === null) return;
  text.setAttribute("x", label.dx);
  text.setAttribute("y", label.dy);
  text.setAttribute("text-anchor", label.anchor);
}

function drawAxes(group, [x, y], width, height) {
  const [across, up] = group.children;
  Object.entries({ x1: 0, x2: width, y1: y, y2: y }).forEach((pair) => across.setAttribute(...pair));
  Object.entries({ x1: x, x2: x, y1: 0, y2: height }).forEach((pair) => up.setAttribute(...pair));
}

/** Draw a bar of 1, 2 or 5 times a power of ten units: gamma makes it shorter or longer. */
function drawScale(group, scale, height) {
  const most = 110 / scale;
  const power = 10 ** Math.floor(Math.log10(most));
  const units = ([5, 2].find((factor) => factor * power <= most) ?? 1) * power;
  const [bar, text] = group.children;
  bar.setAttribute("d", `M12 ${height - 18}v6h${(units * scale).toFixed(1)}v-6`);
  text.setAttribute("x", 18);
  text.setAttribute("y", height - 18);
  text.textContent = `${significant(units)} ${units === 1 ? "unit" : "units"}`;
}
