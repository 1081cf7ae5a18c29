"use strict";
// Draws attention weights as lines between sub-words, and as a map, in the elements of
// attention.html. `setSubwords` shows the queries and keys, `setWeights` their weights.
const byId = (id) => document.getElementById(id);
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const SIDES = ["queries", "keys"];
const SMALLEST_LINE = 0.0005; // weights below it have no line
const CELL_WIDTHS = [22, 46]; // smallest and largest, in pixels
const ANGLE = 50 * Math.PI / 180; // of the names of the map's columns
const PREDICTS = " \u2192 "; // in the name of a decoder's row
const ENCODER_DECODER_TITLES = {
  queries: "Queries: target sub-words, read \u2192 predicted",
  keys: "Keys: source sub-words",
};
let pieces = {queries: [], keys: []}; // sub-words of each side
let padding = null;           // the sub-word that is padding; null for none
let weights = [];             // shown weights, [query][key]
let scores = null;            // inputs of the softmax, [query][key], or null
let isMasked = () => false;   // whether a mask hides key j from query i
let selected = null;   // {side, index} of the sub-word whose weights are shown; null for all
let pinned = null;     // {side, index} of the sub-word that stays selected, or null
let pressed = false;   // whether the pointer was pressed on the pinned sub-word

const percent = (weight) => `${(100 * weight).toFixed(1)}%`;
const withoutMarks = (piece) => piece.replaceAll("\u2581", "") || "space";
const oppositeOf = (side) => side === "queries" ? "keys" : "queries";
const isSame = (a, b) => a !== null && b !== null && a.side === b.side && a.index === b.index;
const isMapShown = () => byId("map-view").checked;
// Of a sub-word, or of a decoder's row that predicts padding.
const isPadding = (name) => name.split(PREDICTS).at(-1) === padding;
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
const layerIndex = () => Number(byId("layer").value);
// The names of the decoder's rows: each reads one target sub-word and predicts the next one.
const decoderRows = (target, start) =>
  target.map((piece, i) => (i ? target[i - 1] : start) + PREDICTS + piece);

function createElement(name, text, attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// Replaces the options, [value, text] pairs, and keeps the selected value if it still exists.
function fillSelect(id, options) {
  const select = byId(id);
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => createElement("option", text, {value})));
  if (options.some(([value]) => String(value) === before)) select.value = before;
}

// Offers the layers and heads of weights, [layer][head][query][key].
function fillLayersAndHeads(layers) {
  const numbered = (name, list) => list.map((_, i) => [i, `${name} ${i + 1}`]);
  fillSelect("layer", numbered("layer", layers));
  fillSelect("head", [["mean", "mean of all"], ...numbered("head", layers[layerIndex()])]);
}

// Returns the selected head of [head][query][key], or the mean of all heads.
function selectedHead(heads) {
  if (byId("head").value !== "mean") return heads[Number(byId("head").value)];
  return heads[0].map((row, i) => row.map((_, j) => mean(heads.map((head) => head[i][j]))));
}

// Shows the sub-words of both sides, {queries, keys}, with a title for each side.
function setSubwords(newPieces, titles, newPadding = null) {
  pieces = newPieces;
  padding = newPadding;
  pinned = null;
  fillLines(titles);
  fillMap(titles);
}

// Shows weights, [query][key], of the same sub-words; optionally scores and masks.
function setWeights(newWeights, newScores = null, newIsMasked = () => false) {
  weights = newWeights;
  scores = newScores;
  isMasked = newIsMasked;
  showView();
}

// Shows the weights as lines or as a map, as the buttons say.
function showView() {
  for (const id of ["lines", "lines-help"]) byId(id).hidden = isMapShown();
  for (const id of ["map", "map-help"]) byId(id).hidden = !isMapShown();
  if (isMapShown()) drawMap();
  layOut();
  select(pinned);
}

// Returns the button of a sub-word; the mark of a word's beginning is muted.
function createButton(side, piece, index, count) {
  const button = createElement("button", "", {
    type: "button",
    "aria-label": `${withoutMarks(piece)}, ${index + 1} of ${count}`,
    "aria-pressed": false,
    tabindex: index ? -1 : 0,
  });
  for (const part of piece.split(/(\u2581)/)) {
    if (part === "\u2581") button.append(createElement("span", part, {class: "mark"}));
    else if (part) button.append(part);
  }
  if (isPadding(piece)) button.classList.add("padding");
  const subword = {side, index};
  button.dataset.side = side;
  button.dataset.index = index;
  button.addEventListener("pointerenter", () => select(subword));
  button.addEventListener("pointerleave", () => select(pinned));
  button.addEventListener("pointerdown", () => { pressed = isSame(pinned, subword); });
  button.addEventListener("focus", () => pin(subword));
  button.addEventListener("click", () => {
    pin(pressed ? null : subword);
    pressed = false;
  });
  return button;
}

function fillLines(titles) {
  for (const side of SIDES) {
    byId(`${side}-title`).textContent = titles[side];
    byId(side).replaceChildren(...pieces[side].map((piece, index, {length}) => {
      const item = createElement("li", "");
      item.append(
        createButton(side, piece, index, length), createElement("span", "", {class: "weight"}));
      return item;
    }));
  }
}

function fillMap({queries, keys}) {
  byId("map-title").textContent = `Rows: ${queries.toLowerCase()}. Columns: ${keys.toLowerCase()}.`;
  const corner = createElement("td", "", {class: "corner"});
  byId("map-keys").replaceChildren(corner, ...pieces.keys.map((piece, j, {length}) => {
    const cell = createElement("th", "", {scope: "col", class: "key"});
    cell.append(createButton("keys", piece, j, length));
    return cell;
  }));
  byId("map-queries").replaceChildren(...pieces.queries.map((piece, i, {length}) => {
    const row = createElement("tr", "");
    const header = createElement("th", "", {scope: "row"});
    header.append(createButton("queries", piece, i, length));
    row.append(header, ...pieces.keys.map(() => {
      const cell = createElement("td", "");
      cell.addEventListener("pointerenter", () => select({side: "queries", index: i}));
      cell.addEventListener("pointerleave", () => select(pinned));
      return cell;
    }));
    return row;
  }));
}

const buttonsOf = (side) =>
  [...byId(isMapShown() ? "map" : "lines").querySelectorAll(`button[data-side=${side}]`)];
const cellsOfMap = () => [...byId("map-queries").children].map((row) => [...row.children].slice(1));

// Fits the lines or the map into the width of the page.
function layOut() {
  if (!weights.length) return;
  if (!isMapShown()) {
    drawLines();
    return;
  }
  const table = byId("map").firstElementChild;
  const buttons = buttonsOf("keys");
  const names = buttons.map((button) => button.offsetWidth);
  const height = buttons[0].offsetHeight;
  const rowNames = Math.max(...buttonsOf("queries").map((button) => button.offsetWidth)) + 4;
  const overhang = Math.max(...names) * Math.cos(ANGLE);
  const [smallest, largest] = CELL_WIDTHS;
  const space = (byId("map").clientWidth - rowNames - overhang) / names.length;
  const cell = Math.floor(Math.max(smallest, Math.min(largest, space)));
  table.style.setProperty("--cell", `${cell}px`);
  byId("map-title").style.maxWidth = `${byId("map").clientWidth}px`; // the table can be wider
  const headerHeight = Math.max(...names) * Math.sin(ANGLE) + height * Math.cos(ANGLE);
  byId("map-keys").style.height = `${Math.ceil(headerHeight + 4)}px`;
  const right = Math.max(...names.map(
    (name, j) => name * Math.cos(ANGLE) + 4 - (names.length - j - 0.5) * cell));
  table.style.marginRight = `${Math.max(0, Math.ceil(right))}px`;
}

function pin(subword) {
  pinned = subword;
  select(subword);
}

// Shows the weights of one sub-word, {side, index}, or all weights for null.
function select(subword) {
  selected = subword;
  for (const side of SIDES) {
    buttonsOf(side).forEach((button, index) => {
      button.setAttribute("aria-pressed", isSame(selected, {side, index}));
    });
  }
  const selectedWeights = weightsOfSelected(weights);
  if (isMapShown()) {
    markSelection();
  } else {
    drawLines();
    for (const side of SIDES) {
      [...byId(side).children].forEach((item, i) => {
        const hasLabel = selected !== null && selected.side !== side;
        item.lastChild.textContent = hasLabel ? percent(selectedWeights[i]) : "";
      });
    }
  }
  byId("status").textContent = selected === null ? "" : describe(selectedWeights);
}

const isInSelection = (i, j) =>
  selected !== null && selected.index === (selected.side === "queries" ? i : j);

// Returns the row or column of a matrix, [query][key], that belongs to the selected sub-word.
function weightsOfSelected(matrix) {
  if (selected === null) return [];
  if (selected.side === "queries") return matrix[selected.index];
  return matrix.map((row) => row[selected.index]);
}

// Returns the vertical middle of each sub-word of a column.
function middlesOf(side) {
  const top = byId(side).offsetTop;
  return [...byId(side).children].map((item) => item.offsetTop - top + item.offsetHeight / 2);
}

function drawLines() {
  const middles = {queries: middlesOf("queries"), keys: middlesOf("keys")};
  const height = Math.max(byId("queries").offsetHeight, byId("keys").offsetHeight, 1);
  byId("svg").setAttribute("viewBox", `0 0 100 ${height}`);
  byId("svg").style.height = `${height}px`;
  const lines = [];
  weights.forEach((row, i) => row.forEach((weight, j) => {
    if (weight >= SMALLEST_LINE && (selected === null || isInSelection(i, j))) {
      lines.push(createLine(middles.queries[i], middles.keys[j], weight));
    }
  }));
  byId("svg").replaceChildren(...lines);
}

function createLine(from, to, weight) {
  const line = document.createElementNS(SVG_NAMESPACE, "line");
  line.setAttribute("x1", 0);
  line.setAttribute("y1", from);
  line.setAttribute("x2", 100);
  line.setAttribute("y2", to);
  line.style.opacity = weight.toFixed(4);
  return line;
}

function drawMap() {
  cellsOfMap().forEach((row, i) => row.forEach((cell, j) => {
    const weight = weights[i][j];
    cell.textContent = weight >= 0.005 ? (100 * weight).toFixed(0) : "";
    cell.style.setProperty("--weight", percent(weight));
    cell.classList.toggle("over-65", weight >= 0.65);
    cell.classList.toggle("over-80", weight >= 0.8);
    cell.classList.toggle("masked", isMasked(i, j));
  }));
}

// Marks the cells of the map that belong to the selected sub-word.
function markSelection() {
  byId("map").classList.toggle("has-selection", selected !== null);
  cellsOfMap().forEach((row, i) => row.forEach((cell, j) => {
    cell.classList.toggle("selected", isInSelection(i, j));
  }));
}

const subwordName = (side, index) => `${withoutMarks(pieces[side][index])} (${index + 1})`;

// Returns the five largest weights of the selected sub-word, at least 0.5%, as a sentence.
function describe(selectedWeights) {
  const {side, index} = selected;
  const selectedScores = scores === null ? null : weightsOfSelected(scores);
  const scoreText = (i) =>
    selectedScores === null ? "" : ` (score ${selectedScores[i].toFixed(2)})`;
  const largest = selectedWeights
    .map((weight, i) => [weight, i])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 5)
    .filter(([weight]) => weight >= 0.005)
    .map(([weight, i]) => `${subwordName(oppositeOf(side), i)} ${percent(weight)}${scoreText(i)}`);
  const verb = side === "queries" ? "attends to" : "receives attention from";
  const list = largest.join(", ") || "no weight of 0.5% or more";
  return `${subwordName(side, index)} ${verb}: ${list}`;
}

// Moves the keyboard focus between the sub-words.
function moveFocus(event) {
  const button = event.target.closest("button");
  if (!button) return;
  const {side} = button.dataset;
  const index = Number(button.dataset.index);
  const isColumn = isMapShown() && side === "keys"; // the map's keys stand side by side
  const destinations = {
    [isColumn ? "ArrowLeft" : "ArrowUp"]: [side, index - 1],
    [isColumn ? "ArrowRight" : "ArrowDown"]: [side, index + 1],
    Home: [side, 0],
    End: [side, Infinity],
    [isColumn ? "ArrowDown" : "ArrowLeft"]: ["queries", index],
    [isColumn ? "ArrowUp" : "ArrowRight"]: ["keys", index],
  };
  if (!destinations[event.key]) return;
  event.preventDefault();
  const [newSide, newIndex] = destinations[event.key];
  const buttons = buttonsOf(newSide);
  const destination = buttons[Math.max(0, Math.min(buttons.length - 1, newIndex))];
  for (const other of buttons) other.tabIndex = other === destination ? 0 : -1;
  destination.focus();
}

for (const id of ["lines-view", "map-view"]) byId(id).addEventListener("change", showView);
for (const id of ["lines", "map"]) byId(id).addEventListener("keydown", moveFocus);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") pin(null);
});
window.addEventListener("resize", layOut);
