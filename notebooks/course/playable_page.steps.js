"use strict";
// Every number on the way: the steps of the model, and Figure 1 to choose one.

/** How a row is called: by the sub-word that it reads. */
const rowName = (side, row) => html(idsOf(side)[row]);
const isMap = (kind) => ["scores", "scaled", "masked", "weights"].includes(kind);
const ofHead = (kind) => isMap(kind) || kind === "project" || kind === "heads";

/** Title, equation and explanation of each kind of step. */
const KINDS = {
  ids: (s) => ["Sub-words and ids", "", s.side === "encoder"
    ? `The tokenizer cuts the sentence into sub-words; a hyphen says that one continues a word. Each has an id.
      The ${PADDING} [PAD] at the end stand for a batch in which another sentence is longer.`
    : `The decoder reads what it has written, after [START]; each row predicts the sub-word after the one
      that it reads.`],
  embedding: () => ["Embedding", `<i>X</i> = <i>E</i>[id] · √<i>d</i><sub>model</sub>`,
    `An id chooses a row of the table <i>E</i>. It is multiplied by √${CONFIG.d_model} =
    ${f(Math.sqrt(CONFIG.d_model))}, so that the positions, which come next, do not drown it.`],
  positions: () => ["Positional encoding",
    `PE(pos, 2<i>i</i>) = sin(pos / 10000<sup>2<i>i</i>/<i>d</i></sup>),
     PE(pos, 2<i>i</i>+1) = cos(the same)`,
    state.on.positions ? `Attention does not know the order of its inputs. A pattern of sines and
    cosines, different at each position, is added.` : "Switched off: nothing is added."],
  norm: () => ["Layer normalization", `LayerNorm(<i>x</i>)`,
    "Each vector gets mean 0 and variance 1, then a scale and a shift that were learned."],
  project: (s) => ["Queries, keys and values",
    ["Q", "K", "V"].map((m) => `<i>${m}</i> = <i>${m === "Q" || s.keySide === s.side ? "X" : "Y"}</i>${
      sup("W", m)} + ${sup("b", m)}`).join(", &nbsp;"),
    `A query says what a sub-word looks for, a key what it offers, a value what it hands over. Each
    head has its own, of ${DEPTH} numbers.${s.keySide === s.side ? "" :
    " The queries come from the decoder, the keys and values from the encoder's output <i>Y</i>."}`],
  scores: () => ["Scores", `<i>QK</i><sup>T</sup>`,
    "Each query (row) times each key (column): the larger, the better they fit."],
  scaled: () => ["Scaled scores", `<i>QK</i><sup>T</sup> / ${D_K}`, state.on.scale
    ? `Sums of ${DEPTH} products are large. They are divided by √${DEPTH} = ${f(Math.sqrt(DEPTH))},
      so that the softmax does not become all or nothing.` : "Switched off: the scores stay as they are."],
  masked: (s) => ["Mask", `<i>QK</i><sup>T</sup> / ${D_K} + mask`, s.name.endsWith("mha1")
    ? (state.on.lookAhead ? "Each row sees itself and what was written before it. Later sub-words get −∞."
      : "Switched off: each row sees the sub-words that it should predict.")
    : (state.on.padding ? "[PAD] is no word: its column gets −∞." : "Switched off: [PAD] counts as a word.")],
  weights: () => ["Attention weights", `softmax(<i>QK</i><sup>T</sup> / ${D_K} + mask)`,
    "Each row becomes positive and sums to 1: how much of each value the query takes."],
  heads: () => ["Output of a head", `<i>Z</i> = softmax(<i>QK</i><sup>T</sup> / ${D_K} + mask) <i>V</i>`,
    "The values, weighted by the row of attention weights, and summed."],
  output: () => ["All heads together", `Concat(head<sub>1</sub>, …, head<sub>${CONFIG.num_heads}</sub>)
    ${sup("W", "O")} + ${sup("b", "O")}`, `The ${CONFIG.num_heads} outputs stand side by side, ${
    CONFIG.num_heads} × ${DEPTH} = ${CONFIG.d_model} numbers, and ${sup("W", "O")} mixes them.`],
  add: () => ["Residual connection", `<i>x</i> + SubLayer(LayerNorm(<i>x</i>))`, state.on.residual
    ? "The input of the sub-layer is added to its output." : "Switched off: the input is lost."],
  inner: (s) => ["Feed-forward, inner layer", `max(0, <i>xW</i><sub>1</sub> + <i>b</i><sub>1</sub>)`,
    `Each position alone, wider: ${CONFIG.dff} numbers. Here ${
    rowOf(s.tensors[0][1], state.row[s.side]).filter((x) => x === 0).length} of them are 0.`],
  outer: () => ["Feed-forward, outer layer",
    `FFN(<i>x</i>) = max(0, <i>xW</i><sub>1</sub> + <i>b</i><sub>1</sub>)<i>W</i><sub>2</sub>
     + <i>b</i><sub>2</sub>`,
    `Back to ${CONFIG.d_model} numbers.`],
  logits: () => ["Logits", `<i>XE</i><sup>T</sup>`, `The last vector times the embedding of each of the
    ${DATA.vocabulary.length.toLocaleString("en")} sub-words: the table <i>E</i> of the first step again.`],
  probabilities: () => ["Probabilities", `softmax(<i>XE</i><sup>T</sup>)`,
    "How probable each sub-word is as the next one."],
  next: () => ["The next sub-word", "", state.beam === 1
    ? "Greedy search writes the most probable sub-word of each row."
    : `Beam search may write another sub-word than the most probable one, where the whole becomes more
      probable.`],
};

/** Draws the current step. */
function showStep() {
  const index = indexOfStep(), step = now.steps[index];
  const [title, equation, explanation] = KINDS[step.kind](step);
  const block = BLOCK_NAMES[step.name.split("/")[2]]?.replace(/(encoder|decoder) self/, "self");
  const side = step.side === "encoder" ? "Encoder" : "Decoder";
  const layer = step.layer ? ` layer ${step.layer} of ${CONFIG[`num_${step.side}_layers`]}` : "";
  byId("title").textContent = [side + layer, block, title].filter(Boolean).join(" · ");
  byId("explanation").innerHTML = `${equation && `<div class="equation">${equation}</div>`}
    <p>${explanation}</p>`;
  byId("step").max = now.steps.length - 1;
  byId("step").value = index;
  byId("step").setAttribute("aria-valuetext", byId("title").textContent);
  byId("count").textContent = `${index + 1} of ${now.steps.length}`;
  for (const group of document.querySelectorAll("#figure .box"))
    group.classList.toggle("active", group.dataset.box === boxOf(step));
  showChips(step);
  const view = byId("view");
  view.replaceChildren();
  if (ofHead(step.kind)) showHeads(view, step);
  if (isMap(step.kind)) showMap(view, step);
  else if (step.kind === "ids") showIds(view, step);
  else if (step.kind === "next") showNext(view);
  else if (step.kind === "logits" || step.kind === "probabilities") showBars(view, step);
  else showTensors(view, step, tensorsOf(step));
}

function goTo(index) {
  const step = now.steps[Math.max(0, Math.min(now.steps.length - 1, index))];
  Object.assign(state, { step: stepKey(step), view: "inside" });
  show();
}

function showChips(step) {
  const chips = byId("chips");
  chips.replaceChildren();
  chips.hidden = isMap(step.kind) || step.kind === "next";
  if (chips.hidden) return;
  const labels = idsOf(step.side).map((id, row) => step.side === "encoder" ? html(id)
    : `${html(id)}<small>→ ${html(out[row])}</small>`);
  choices(chips, labels, state.row[step.side], "row", (i) => { state.row[step.side] = i; });
}

function showIds(view, step) {
  const row = state.row[step.side], id = step.ids[row];
  element(view, "p", `Position ${row}: <b>${html(id)}</b> has the id <b>${id}</b>${
    step.side === "decoder" ? `, and after it comes <b>${html(out[row])}</b>, id ${out[row]}` : ""}.`);
  element(view, "p", `All ids: <span class="shape">[${step.ids.join(", ")}]</span>, shape
    <span class="shape">(1, ${step.ids.length})</span>.`);
}

/** The vectors of a step, as [name, matrix, row]. */
function tensorsOf(step) {
  const row = state.row[step.side], a = step.a;
  if (step.kind === "project") {
    const other = step.keySide === step.side ? row : Math.min(state.key, inp.length - 1);
    return [["Q", a.q[state.head], row], ["K", a.k[state.head], other], ["V", a.v[state.head], other]];
  }
  if (step.kind === "heads") return [["Z", a.z[state.head], row]];
  return step.tensors.map(([name, tensor]) => [name, tensor, row]);
}

function showTensors(view, step, tensors) {
  if (step.kind === "project" && step.keySide !== step.side) {
    const chips = element(view, "div", "<span>Keys and values of</span>",
      { class: "buttons", role: "group", "aria-label": "Key" });
    choices(chips, inp.map(html), state.key, "key", (i) => { state.key = i; });
  }
  if (step.kind === "heads") {
    const weights = [...rowOf(step.a.weights[state.head], state.row[step.side])];
    const terms = largestOf(weights, 4).filter((key, i) => !i || weights[key] >= 0.005)
      .map((key) => `${f(weights[key])} <i>v</i>(${rowName(step.keySide, key)})`);
    element(view, "p", state.on.heads[step.name][state.head] ? `<i>z</i> = ${terms.join(" + ")} + …`
      : "This head is switched off: <i>Z</i> = 0.");
  }
  for (const [name, tensor, row] of tensors) {
    const values = rowOf(tensor, row), largest = Math.max(1e-9, ...tensor.data.map(Math.abs));
    const side = "KV".includes(name) ? step.keySide : step.side, of = rowName(side, row);
    element(view, "h3", `<i>${name}</i> of ${of} <span class="shape muted">(1, ${ofHead(step.kind)
      ? `${CONFIG.num_heads}, ` : ""}${tensor.rows}, ${tensor.columns})</span>`);
    showStrip(view, values, largest, `${name} of ${of}`);
  }
  const [name, tensor, chosen] = tensors[tensors.length - 1];
  const side = name === "V" ? step.keySide : step.side;
  const all = element(view, "details", `<summary>All positions of <i>${name}</i></summary>`, { open: "" });
  const grid = element(all, "div", "", { class: "tensor" });
  const largest = Math.max(...tensor.data.map(Math.abs));
  for (let row = 0; row < tensor.rows; row++) {
    element(grid, "span", rowName(side, row), { class: row === chosen ? "row" : "" });
    const canvas = element(grid, "canvas", "", { width: tensor.columns, height: 1, "aria-hidden": true });
    paint(canvas, matrix(1, tensor.columns, rowOf(tensor, row)),
      (x) => [...(x > 0 ? PLUS : MINUS), Math.abs(x) / largest]);
  }
  element(all, "p", "Purple is positive, orange negative.", { class: "muted" });
  const table = element(view, "details", "<summary>The numbers as a table</summary>");
  table.ontoggle = () => {
    if (!table.open || table.children.length > 1) return;
    for (const [name, tensor, row] of tensors) showTable(table, name, rowOf(tensor, row));
  };
}

const [PLUS, MINUS, BLUE, GREY] = [[138, 99, 201], [224, 130, 20], [60, 120, 230], [130, 135, 150]];

/** Paints a matrix; color(number, index) is red, green, blue and how opaque. */
function paint(canvas, { rows, columns, data }, color) {
  [canvas.width, canvas.height] = [columns, rows];
  const image = new ImageData(columns, rows);
  data.forEach((x, i) => {
    const [r, g, b, opaque] = color(x, i);
    image.data.set([r, g, b, 255 * Math.min(1, opaque || 0)], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Cells of a vector; the mouse, a finger or the arrow keys choose the one whose number is shown. */
function showStrip(view, values, largest, name) {
  const strip = element(view, "div", [...values].map((x) =>
    `<i class="${x < 0 ? "minus" : ""}" style="--w:${Math.round(100 * Math.abs(x) / largest)}"></i>`).join(""),
    { class: "strip", tabindex: 0, role: "slider", "aria-label": name.replace(/<[^>]*>/g, ""),
      "aria-valuemin": 0, "aria-valuemax": values.length - 1 });
  const output = element(view, "output");
  let column = 0;
  const say = (chosen) => {
    strip.children[column].classList.remove("here");
    column = Math.max(0, Math.min(values.length - 1, chosen));
    strip.children[column].classList.add("here");
    output.innerHTML = `column ${column}: <b>${f(values[column], 4)}</b>`;
    strip.setAttribute("aria-valuenow", column);
    strip.setAttribute("aria-valuetext", output.textContent);
  };
  const point = (event) => {
    const cell = document.elementFromPoint(event.clientX, event.clientY);
    if (cell?.parentElement === strip) say([...strip.children].indexOf(cell));
  };
  strip.onpointermove = strip.onpointerdown = point;
  strip.onkeydown = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -1e4, End: 1e4 }[event.key];
    if (!move) return;
    event.preventDefault();
    say(column + move);
  };
  say(values.reduce((best, x, i) => Math.abs(x) > Math.abs(values[best]) ? i : best, 0));
}

function showTable(parent, name, values) {
  const width = 8, rows = [];
  for (let i = 0; i < values.length; i += width)
    rows.push([`${i}`, ...[...values.slice(i, i + width)].map((x) => f(x, 3))]);
  const head = Array.from({ length: width }, (_, i) => `+${i}`);
  element(parent, "div", tableOf([`<i>${name}</i>`, ...head], rows), { class: "numbers" });
}

function showHeads(view, step) {
  const heads = element(view, "div", "", { class: "heads", role: "group", "aria-label": "Head" });
  const names = step.a.weights.map((_, h) => `<canvas></canvas>head ${h + 1}${
    state.on.heads[step.name][h] ? "" : " (off)"}`);
  choices(heads, names, state.head, "head", (h) => { state.head = h; });
  heads.querySelectorAll("canvas").forEach((canvas, h) => paint(canvas, step.a.weights[h],
    (w, i) => step.a.masked[h].data[i] < -1e8 ? [...GREY, 0.45] : [...BLUE, w]));
}

/** A map: rows are queries, columns are keys. */
function showMap(view, step) {
  const a = step.a[step.kind][state.head], isWeights = step.kind === "weights";
  const keys = idsOf(step.keySide), queries = idsOf(step.side);
  state.key = Math.min(state.key, keys.length - 1);
  const row = state.row[step.side], visible = [...a.data].filter((x) => x > -1e8);
  const largest = isWeights ? 1 : Math.max(...visible.map(Math.abs));
  const masked = step.a.masked[state.head].data;
  const showsHidden = (isWeights || step.kind === "masked") && masked.some((x) => x < -1e8);
  const cells = (q) => keys.map((_, k) => {
    const i = q * a.columns + k, x = a.data[i], isHere = q === row && k === state.key;
    const hidden = showsHidden && masked[i] < -1e8;
    const kind = hidden ? "hidden" : isWeights ? "weight" : x < 0 ? "minus" : "";
    const color = hidden ? "" : `style="--w:${Math.round(100 * Math.abs(x) / largest)}"`;
    return `<td role="gridcell" id="cell-${q}-${k}" class="${kind}${isHere ? " here" : ""}" ${color}>${
      isWeights && hidden ? "" : isWeights ? f(100 * x, 0) : f(x, 1)}</td>`;
  }).join("");
  const rows = queries.map((id, q) => `<tr class="${q === row ? "row" : ""}"><th scope="row">${html(id)}${
    step.side === "decoder" ? ` <span class="muted">→ ${html(out[q])}</span>` : ""}</th>${cells(q)}</tr>`);
  const heading = window.innerWidth < 700 ? 104 : 152, wide = isWeights ? 60 : 66;
  const room = Math.min(wide, (view.clientWidth - heading) / keys.length);
  const narrow = room < (isWeights ? 25 : 44) ? "narrow" : "";     // too narrow for its numbers
  const box = element(view, "div", `<table class="map ${narrow}" role="grid" tabindex="0" data-focus="map"
    style="max-width:${heading + wide * keys.length}px" aria-activedescendant="cell-${row}-${state.key}"
    aria-label="${KINDS[step.kind](step)[0]}, head ${state.head + 1}"><thead><tr><th></th>${
    keys.map((id) => `<th scope="col">${html(id)}</th>`).join("")}</tr></thead>
    <tbody>${rows.join("")}</tbody></table>`);
  const move = (q, k) => {
    state.row[step.side] = Math.max(0, Math.min(queries.length - 1, q));
    state.key = Math.max(0, Math.min(keys.length - 1, k));
    show();
  };
  box.onclick = (event) => {
    const [, q, k] = event.target.id.split("-").map(Number);
    if (event.target.id.startsWith("cell")) move(q, k);
  };
  box.onkeydown = (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    move(row + by[0], state.key + by[1]);
  };
  const number = (kind) => rowOf(step.a[kind][state.head], row)[state.key];
  const [q, k] = [html(queries[row]), html(keys[state.key])];
  element(view, "output", {
    scores: `<i>q</i>(${q}) · <i>k</i>(${k}) = <b>${f(number("scores"))}</b>`,
    scaled: state.on.scale ? `${f(number("scores"))} / √${DEPTH} = <b>${f(number("scaled"))}</b>`
      : f(number("scaled")),
    masked: number("masked") < -1e8 ? `${k} is hidden from ${q}`
      : `${k} is visible to ${q}: <b>${f(number("masked"))}</b>`,
    weights: `${q} takes <b>${percent(number("weights"))}</b> of its value from ${k}`,
  }[step.kind]);
  if (isWeights) showEdit(view, step, row, number("weights"));
  element(view, "p", `${showsHidden ? `<span class="swatch"></span> hidden by the mask. ` : ""}${
    isWeights ? "Weights in percent. " : ""}Rows are queries (the sub-word that is read${
    step.side === "decoder" ? " → the one that is written" : ""}), columns are keys. Shape
    <span class="shape">(1, ${CONFIG.num_heads}, ${a.rows}, ${a.columns})</span>. Choose a cell, or use the
    arrow keys.`, { class: "muted" });
}

/** A slider for the chosen weight. */
function showEdit(view, step, row, weight) {
  const at = { name: step.name, head: state.head, row, key: state.key };
  const others = state.on.edits.filter((e) => Object.keys(at).some((name) => e[name] !== at[name]));
  const line = element(view, "div", `<label for="weight">Give it another weight</label>
    <input type="range" id="weight" min="0" max="100" value="${Math.round(100 * weight)}" data-focus="weight">`,
  { class: "edit" });
  line.lastChild.onchange = (event) => {
    state.view = "inside";
    change({ on: { ...state.on, edits: [...others, { ...at, weight: event.target.value / 100 }] } });
  };
  if (others.length < state.on.edits.length)
    button(line, "Undo", "undo", () => change({ on: { ...state.on, edits: others } }));
}

/** The largest logits or probabilities of the chosen row, with those of the whole model. */
function showBars(view, step) {
  const row = state.row.decoder, isP = step.kind === "probabilities";
  const values = rowOf(step[step.kind], row), before = rowOf(whole[step.kind], row);
  const order = largestOf(values, 8);
  if (!order.includes(out[row])) order.push(out[row]);
  const largest = values[order[0]], number = (x) => isP ? percent(x) : f(x);
  element(view, "p", `${html(tar[row])} is read, <b>${html(out[row])}</b> is written. Shape
    <span class="shape">(1, ${tar.length}, ${values.length})</span>.`);
  const was = (id) => isChanged() ? ` <span class="muted">(was ${number(before[id])})</span>` : "";
  element(view, "div", order.map((id) => `<span>${id === out[row] ? `<b>${html(id)}</b>` : html(id)}</span>
    <i style="width:${Math.max(0, 100 * values[id] / largest)}%"></i>
    <span>${number(values[id])}${was(id)}</span>`).join(""), { class: "bars" });
}

function showNext(view) {
  const rows = tar.map((id, row) => {
    const p = rowOf(now.probabilities, row), [best] = largestOf(p, 1);
    return [html(id), html(best), percent(p[best]), html(out[row]), percent(p[out[row]])];
  });
  element(view, "div", tableOf(["reads", "most probable", "", "written", ""], rows));
}

// ---- Figure 1 ---------------------------------------------------------------------------------

const boxOf = (step) => step.name.replace(/layer\d+\//, "");

/** The parts of the figure from bottom to top: key, words, color. */
const ROSE = "#FBE3E4", ORANGE = "#FCE0BB", YELLOW = "#F3F6C2", SKY = "#C5E8F7", LILAC = "#DDE0F1", GREEN = "#CBE6D0";
const inputOf = (side, words) => [
  [side, words, ""], [`${side}/embedding`, "Embedding", ROSE], [`${side}/positions`, "+"]];
const subLayer = (side, name, number, words, color) => [[`${side}/layernorm${number}`, "Norm", YELLOW],
  [`${side}/${name}`, words, color], [`${side}/${name}/add`, "+"]];
const FIGURE = {
  encoder: [...inputOf("encoder", "Source"),
    ...subLayer("encoder", "mha", 1, "Multi-Head\nAttention", ORANGE),
    ...subLayer("encoder", "ffn", 2, "Feed\nForward", SKY), ["encoder/layernorm", "Norm", YELLOW]],
  decoder: [...inputOf("decoder", "Output, shifted right"),
    ...subLayer("decoder", "mha1", 1, "Masked Multi-\nHead Attention", ORANGE),
    ...subLayer("decoder", "mha2", 2, "Multi-Head\nAttention", ORANGE),
    ...subLayer("decoder", "ffn", 3, "Feed\nForward", SKY), ["decoder/layernorm", "Norm", YELLOW],
    ["decoder/logits", "Linear", LILAC], ["decoder/probabilities", "Softmax", GREEN],
    ["decoder/next", "Next sub-word", ""]],
};

function drawFigure() {
  const [HEIGHT, GAP, HALF, FRAME] = [600, 13, 52, 66];      // HALF of a box, FRAME half of a stack
  const parts = [], boxes = {};
  for (const [side, list] of Object.entries(FIGURE)) {
    const [x, outward] = side === "encoder" ? [76, -1] : [214, 1];
    let bottom = HEIGHT - 2;
    for (const [key, words, color] of list) {
      const top = bottom - (words === "+" ? 16 : 8 + 15 * words.split("\n").length);
      boxes[key] = { key, words, color, x, outward, side, bottom, top, middle: (top + bottom) / 2 };
      bottom = top - GAP;
    }
    const [first, last] = [boxes[`${side}/layernorm1`], boxes[`${side}/ffn/add`]];
    const top = last.top - 6, height = first.bottom + 10 - top;
    parts.push(`<rect class="stack" rx="8" x="${x - FRAME}" y="${top}" width="${2 * FRAME}" height="${height}"/>
      <g class="plain"><text x="${x + 80 * outward}" y="${top + height / 2}" style="font-size:15px">${
      CONFIG[`num_${side}_layers`]}×</text></g>`);
  }
  const line = (...points) => parts.push(`<path d="M${points.join("L")}" marker-end="url(#arrow)"/>`);
  const keys = Object.keys(boxes);
  keys.forEach((key, i) => {
    const { x, outward, side, bottom, middle } = boxes[key], under = boxes[keys[i - 1]];
    if (under?.side === side) line([x, under.top], [x, bottom + 1]);
    if (!key.endsWith("/add")) return;
    const outside = x + 60 * outward, from = boxes[keys[i - 2]].bottom + GAP / 2;
    line([x, from], [outside, from], [outside, middle], [x + 9 * outward, middle]);
  });
  const encoded = boxes["encoder/layernorm"], cross = boxes["decoder/mha2"], between = 145, above = encoded.top - 10;
  line([encoded.x, encoded.top], [encoded.x, above], [between, above], [between, cross.middle],
    [cross.x - HALF, cross.middle]);
  const plus = ({ x, middle }) => `<circle cx="${x}" cy="${middle}" r="8"/>
    <path d="M${x - 5},${middle}h10M${x},${middle - 5}v10"/>`;
  const rectangle = ({ words, color, x, bottom, top, middle }) => {
    const lines = words.split("\n"), y = (i) => middle + 4.5 + 15 * (i - (lines.length - 1) / 2);
    return `<rect rx="4" x="${x - HALF}" y="${top}" width="${2 * HALF}" height="${bottom - top}"
      fill="${color || "none"}"/>${lines.map((word, i) => `<text x="${x}" y="${y(i)}">${word}</text>`).join("")}`;
  };
  for (const box of Object.values(boxes)) {
    const name = box.words !== "+" ? box.words.replace("\n", " ")
      : box.key.endsWith("/add") ? "residual connection" : "positional encoding";
    parts.push(`<g class="box ${box.color ? "" : "plain"}" data-box="${box.key}" role="button" tabindex="0"
      aria-label="${box.side}: ${name}">${box.words === "+" ? plus(box) : rectangle(box)}</g>`);
  }
  document.querySelector("#figure div").innerHTML = `<svg viewBox="-20 0 330 ${HEIGHT}" role="group"
    aria-label="Figure 1 of the paper"><marker id="arrow" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6"
    markerHeight="6" orient="auto"><path d="M0,0L6,3L0,6z"/></marker>${parts.join("")}</svg>`;
  for (const box of document.querySelectorAll("#figure .box")) {
    box.onclick = () => {
      const { layer } = now.steps[indexOfStep()];
      const find = (test) => now.steps.findIndex((s) => boxOf(s) === box.dataset.box && test(s));
      const same = find((s) => s.layer === layer);
      goTo(same < 0 ? find(() => true) : same);
    };
    box.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      box.onclick();
    };
  }
}
