"use strict";
// What the page shows, and how the reader changes it.

const byId = (id) => document.getElementById(id);
const language = (code) => new Intl.DisplayNames(["en"], { type: "language" }).of(code);
const [FROM, TO] = DATA.languages;
const SECONDS_OF_A_SUB_WORD = 0.45;   // when the page plays
const MAX_BEAM = 6;

// ---- Text -------------------------------------------------------------------------------------

const f = (x, digits = 2) => x <= -1e8 ? "−∞"
  : (Math.round(x * 10 ** digits) / 10 ** digits + 0).toFixed(digits).replace("-", "−");
const percent = (p) => `${f(100 * p, p > 0 && p < 0.001 ? 3 : 1)}%`;
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const sup = (letter, index) => `<i>${letter}</i><sup>${index}</sup>`;
const D_K = `√<i>d<sub>k</sub></i>`;

/** How a sub-word is shown: “-ing” continues a word. */
function label(id) {
  const piece = DATA.vocabulary[id];
  if (piece.startsWith(BLANK)) return piece.slice(1) || "␣";
  return /^[\p{L}\p{N}]/u.test(piece) ? `-${piece}` : piece;
}
const html = (id) => escape(label(id));
/** The text of an output; a model without a part may write blanks only. */
const text = (ids) => TARGET.decode(ids).trim() || (ids.length ? "(blanks)" : "");

const SWITCHES = {
  scale: "scale 1/√<i>d<sub>k</sub></i>", lookAhead: "look-ahead mask", padding: "padding mask",
  residual: "residual connections", positions: "positional encoding",
};
const BLOCK_NAMES = { mha: "encoder self-attention", mha1: "decoder self-attention",
  mha2: "encoder-decoder attention" };
const layerOf = (name) => Number(name.match(/layer(\d+)/)[1]);
const blockName = (name) => `${BLOCK_NAMES[name.split("/")[2]]}, layer ${layerOf(name)}`;

// ---- State ------------------------------------------------------------------------------------

// row: the chosen position, by side; key: the chosen key; prefix: the ids that the reader has given.
const state = { view: "", text: "", beam: 0, alpha: 0, prefix: [], on: everything(), look: "",
  step: "", head: 0, row: { encoder: 0, decoder: 0 }, key: 0 };
const OPENING = `decoder/layer${CONFIG.num_decoder_layers}/mha2.weights`;    // a step: name and kind

// Of the sentence: its ids, the search, its best output; the model as it is switched, and whole.
let inp, found, out, tar, now, whole;
let shown = Infinity;                 // sub-words of the output, while the page plays
let run = 0;                          // of `compute`; a new one ends the one before

const isChanged = () => Object.keys(SWITCHES).some((key) => !state.on[key]) ||
  Object.values(state.on.heads).flat().includes(false) || state.on.edits.length > 0;
const idsOf = (side) => side === "encoder" ? inp : tar;
const stepKey = (step) => `${step.name}.${step.kind}`;
const indexOfStep = () => Math.max(0, now.steps.findIndex((step) => stepKey(step) === state.step));
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** The state as the fragment of the address, without what is as at the start. */
function fragment() {
  const { on } = state, join = (...parts) => parts.join(":");
  const heads = BLOCKS.flatMap((name) => on.heads[name].flatMap((is, h) => is ? [] : join(name, h + 1)));
  const rows = [state.row.encoder, state.row.decoder].join(",");
  const values = {
    text: state.text === DATA.examples[0] ? "" : state.text,
    beam: state.beam === DECODE.beam_size ? "" : state.beam,
    penalty: state.alpha === DECODE.length_penalty ? "" : state.alpha,
    begin: state.prefix.map((id) => DATA.vocabulary[id].replace(BLANK, "_")).join(" "),
    off: Object.keys(SWITCHES).filter((key) => !on[key]).join(","),
    heads: heads.join(","),
    weights: on.edits.map((e) => join(e.name, e.head + 1, e.row, e.key, e.weight)).join(","),
    look: state.look,
    step: state.step === OPENING ? "" : state.step,
    head: state.head ? state.head + 1 : "",
    rows: rows === "0,0" ? "" : rows,
    key: state.key || "",
    view: state.view,
  };
  const given = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  return String(given).replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%2C", ",");
}

/** Sets the state from the fragment of the address. */
function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  const list = (name) => (given.get(name) ?? "").split(",").filter(Boolean);
  /** Numbers from the address can be anything. */
  const inside = (x, least, most, other = least) => Number.isFinite(x) ? Math.max(least, Math.min(most, x)) : other;
  const number = (name, ...range) => inside(parseFloat(given.get(name)), ...range);
  const ofBlocks = (name) => list(name).map((each) => each.split(":")).filter(([block]) => BLOCKS.includes(block))
    .map(([block, ...numbers]) => [block, ...numbers.map(Number)]);
  const id = (piece) => TARGET.pieces.indexOf(piece.replace(/^_/, BLANK));
  const [encoder, decoder] = [0, 1].map((i) => inside(parseInt(list("rows")[i]), 0, CONFIG.pe_input));
  const on = everything(), look = given.get("look") ?? "";
  list("off").filter((key) => key in SWITCHES).forEach((key) => { on[key] = false; });
  ofBlocks("heads").forEach(([name, h]) => { on.heads[name][h - 1] = false; });
  on.edits = ofBlocks("weights").map(([name, head, row, key, weight]) =>
    ({ name, head: head - 1, row, key, weight: inside(weight, 0, 1) }));
  Object.assign(state, {
    on, text: (given.get("text") ?? DATA.examples[0]).slice(0, byId("text").maxLength),
    beam: Math.round(number("beam", 1, MAX_BEAM, DECODE.beam_size)),
    alpha: number("penalty", 0, 2, DECODE.length_penalty),
    look: [...byId("look").options].some(({ value }) => value === look) ? look : "",
    prefix: (given.get("begin") ?? "").split(" ").filter(Boolean).map(id).filter((each) => each >= 0),
    step: given.get("step") ?? OPENING, head: Math.round(number("head", 1, CONFIG.num_heads)) - 1,
    row: { encoder, decoder }, key: Math.round(number("key", 0, CONFIG.pe_input)), view: given.get("view") ?? "",
  });
}

/** Opens the state of the address, at the place that it names. */
async function open() {
  readFragment();
  byId("text").value = state.text;
  if (!await compute()) return;
  byId(state.view)?.scrollIntoView();
}

/** Translates the sentence with the model as it is switched. Returns false when a new run began. */
async function compute() {
  const mine = ++run, ids = SOURCE.encode(state.text);
  stop();
  document.querySelectorAll(".told").forEach((output) => output.replaceChildren());
  document.body.dataset.busy = "true";
  inp = padded(ids.length > 1 ? ids : SOURCE.encode(DATA.examples[0]));     // no blank sentence
  const next = async () => {
    await new Promise((resolve) => setTimeout(resolve));
    return mine === run;
  };
  const { beam, alpha, prefix } = state;
  // A model without a part may never end a sentence.
  const longest = isChanged() ? Math.min(longestOutput(inp), 2 * inp.length) : longestOutput(inp);
  const options = { beam, alpha, prefix, longest: Math.max(longest, prefix.length + 1), next };
  const result = await search(inp, state.on, options);
  const before = result && isChanged() ? await search(inp, everything(), options) : result;
  if (!before) return false;
  found = result;
  out = found.ended[0].ids;
  tar = [START, ...out.slice(0, -1)];
  now = transformer(inp, tar, state.on);
  whole = isChanged() ? transformer(inp, tar, everything()) : now;
  byId("changed").innerHTML = !isChanged() ? "" : `The whole model: <span lang="${TO}">${
    escape(text(before.ended[0].ids))}</span> <button id="reset">Switch everything on</button>`;
  if (isChanged()) byId("reset").onclick = () => change({ on: everything() }, "play");
  document.body.dataset.busy = "false";
  show();
  return true;
}

/** Changes the state and computes; the keyboard stays at the element with an id. */
async function change(values, focus) {
  Object.assign(state, values);
  const done = await compute();
  if (focus) byId(focus)?.focus();
  return done;
}

/** Draws everything that depends on the state. */
function show() {
  const last = { encoder: inp.length - 1, decoder: tar.length - 1 };
  for (const side of ["encoder", "decoder"]) state.row[side] = Math.min(state.row[side], last[side]);
  const focused = document.activeElement?.dataset?.focus;
  showTranslation();
  showSwitches();
  showBeam();
  showStep();
  if (focused) document.querySelector(`[data-focus="${focused}"]`)?.focus();
  history.replaceState(null, "", `#${fragment()}`);
}

// ---- Elements ---------------------------------------------------------------------------------

const element = (parent, tag, content = "", attributes = {}) => {
  const made = document.createElement(tag);
  made.innerHTML = content;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
};

/** A button that keeps the keyboard when it is drawn again. */
function button(parent, content, focus, onclick, attributes = {}) {
  const made = element(parent, "button", content, { type: "button", "data-focus": focus, ...attributes });
  made.onclick = onclick;
  return made;
}

/** A row of buttons of which one is chosen. */
function choices(parent, labels, chosen, group, choose) {
  labels.forEach((name, i) => button(parent, name, `${group}${i}`, () => { choose(i); show(); },
    { "aria-pressed": i === chosen }));
}

/** A table; the first cell of a row is its name. */
const tableOf = (head, rows) => `<div class="scroll"><table><thead><tr>${
  head.map((name) => `<th scope="col">${name}</th>`).join("")}</tr></thead><tbody>${
  rows.map(([name, ...cells]) => `<tr><th scope="row">${name}</th>${
    cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("")}</tbody></table></div>`;

// ---- The translation --------------------------------------------------------------------------

const showTranslation = () => {
  byId("written").textContent = text(out.slice(0, shown));
  byId("beam-size").value = state.beam;
  byId("penalty").value = state.alpha;
  byId("penalty-value").textContent = f(state.alpha, 1);
  byId("look").value = state.look;
  showPicture();
  showCandidates();
};

/** Keys on the left, queries on the right, lines as thick as the weights: of a head, or the mean of several. */
function showPicture() {
  const [name, head] = state.look.split(":"), HEIGHT = 2.1;
  const steps = now.steps.filter((s) => s.kind === "weights" && (name ? s.name === name : s.name.endsWith("mha2")));
  const maps = steps.flatMap((s) => head ? [s.a.weights[head - 1]] : s.a.weights);
  const weights = map(maps[0], (_, row, key) => sum(maps.map((m) => rowOf(m, row)[key])) / maps.length);
  const [{ side, keySide }] = steps, writes = side === "decoder", chosen = state.row[side];
  const sources = state.on.padding ? inp.slice(0, -PADDING) : inp;
  const left = keySide === "encoder" ? sources : tar.slice(0, shown), right = writes ? out.slice(0, shown) : sources;
  const count = Math.max(sources.length, out.length), row = rowOf(weights, chosen), picture = byId("picture");
  byId("picture-title").textContent = `Where the ${side} looks as it ${writes ? "writes" : "reads"}`;
  picture.replaceChildren();
  element(picture, "ol", left.map((id, key) => `<li class="source" style="--w:${Math.round(80 * row[key])}">
    <small>${row[key] >= 0.01 ? `${f(100 * row[key], 0)}%` : ""}</small>${html(id)}</li>`).join(""), { "aria-label": "looks at" });
  const lines = right.flatMap((_, t) => left.map((_, s) => {
    const weight = rowOf(weights, t)[s], isChosen = t === chosen, y = (i) => (i + 0.5) * 10;
    return weight < (isChosen ? 0.01 : 0.15) ? "" : `<path d="M0,${y(s)}C50,${y(s)} 50,${y(t)} 100,${y(t)}"
      stroke-width="${f(8 * weight)}" opacity="${isChosen ? 0.9 : 0.18}"/>`;
  })).join("");
  element(picture, "div", `<svg viewBox="0 0 100 ${10 * count}" preserveAspectRatio="none" aria-hidden="true"
    style="height:${HEIGHT * count}rem">${lines}</svg>`);
  const list = element(picture, "ol", "", { "aria-label": writes ? language(TO) : language(FROM) });
  right.forEach((id, t) => {
    const item = element(list, "li");
    button(item, html(id), `out${t}`, () => { stop(); state.row[side] = t; show(); },
      { "aria-pressed": t === chosen, class: writes && t < state.prefix.length ? "yours" : "" });
    if (writes) element(item, "small", percent(rowOf(now.probabilities, t)[id]));
  });
}

/** What else could stand at the chosen position. */
function showCandidates() {
  const t = state.row.decoder, box = byId("candidates"), p = rowOf(now.probabilities, t);
  box.replaceChildren();
  const before = `${t > 3 ? "… " : ""}${escape(text(out.slice(Math.max(0, t - 3), t)))}`;
  element(box, "h2", t ? `After “${before}”` : "The first sub-word");
  element(box, "p", `The most probable next sub-words. Choose another, and the model goes on from there.${
    state.on.lookAhead ? "" : " Without the look-ahead mask it has seen what it should predict."}`, { class: "muted" });
  const order = largestOf(p, 6);
  if (!order.includes(out[t])) order.push(out[t]);
  for (const id of order)
    button(box, `<span>${html(id)}</span><i style="width:${100 * p[id] / p[order[0]]}%"></i><span>${percent(p[id])}</span>`,
      `candidate${id}`, () => change({ prefix: [...out.slice(0, t), id] }),
      { class: "candidate", "aria-pressed": id === out[t] });
  const form = element(box, "form", `<label for="word">Or your own word</label>
    <input id="word" autocomplete="off" autocapitalize="off" spellcheck="false" data-focus="word">
    <button>Write it</button>`);
  form.onsubmit = (event) => {
    event.preventDefault();
    const ids = TARGET.encode(byId("word").value).slice(0, -1);
    if (ids.length) change({ prefix: [...out.slice(0, t), ...ids] });
  };
  if (state.prefix.length)
    button(box, "Let the model choose again", "free", () => change({ prefix: [] }, "play"));
}

let timer;

function stop() {
  clearInterval(timer);
  timer = undefined;
  shown = Infinity;
  byId("play").setAttribute("aria-pressed", false);
  byId("play").textContent = "▶ Play";
}

/** Writes one sub-word after the other; a second call stops it. */
function play() {
  if (timer) {
    stop();
    return show();
  }
  shown = 0;
  const next = () => {
    state.row.decoder = shown++;
    if (shown >= out.length) {
      stop();
      // At the end it stays where the model was least sure.
      const sure = out.map((id, t) => rowOf(now.probabilities, t)[id]);
      state.row.decoder = sure.indexOf(Math.min(...sure));
    }
    show();
  };
  timer = setInterval(next, 1000 * SECONDS_OF_A_SUB_WORD);
  byId("play").setAttribute("aria-pressed", true);
  byId("play").textContent = "■ Stop";
  next();
}

function buildTranslation() {
  byId("ask").querySelector("label").textContent = language(FROM);
  byId("target-language").textContent = language(TO);
  byId("written").lang = TO;
  byId("text").lang = FROM;
  const ask = (text) => change({ text, prefix: [], row: { encoder: 0, decoder: 0 },
    on: { ...state.on, edits: [] } });
  let waiting;
  byId("text").oninput = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => ask(byId("text").value), 400);
  };
  byId("ask").onsubmit = async (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    if (await ask(byId("text").value)) play();
  };
  for (const example of DATA.examples)
    button(byId("examples"), escape(example), "", async () => {
      byId("text").value = example;
      if (await ask(example)) play();
    });
  for (let beam = 1; beam <= MAX_BEAM; beam++)
    element(byId("beam-size"), "option", beam === 1 ? "1 (greedy)" : `${beam}`, { value: beam });
  byId("beam-size").onchange = (event) => change({ beam: Number(event.target.value) });
  byId("penalty").onchange = (event) => change({ alpha: Number(event.target.value) });
  byId("penalty").oninput = (event) => { byId("penalty-value").textContent = f(Number(event.target.value), 1); };
  const move = (by) => {
    stop();
    state.row.decoder = Math.max(0, Math.min(tar.length - 1, state.row.decoder + by));
    show();
  };
  byId("back").onclick = () => move(-1);
  byId("on").onclick = () => move(1);
  byId("play").onclick = play;
  element(byId("look"), "option", "encoder-decoder attention (mean)", { value: "" });
  for (const [block, words] of Object.entries(BLOCK_NAMES)) {
    const group = element(byId("look"), "optgroup", "", { label: words });
    for (const name of BLOCKS.filter((each) => each.endsWith(`/${block}`)))
      for (let h = 1; h <= CONFIG.num_heads; h++)
        element(group, "option", `${words.split(" ")[0]}, layer ${layerOf(name)}, head ${h}`, { value: `${name}:${h}` });
  }
  byId("look").onchange = (event) => { state.look = event.target.value; show(); };
}

// ---- Switches ---------------------------------------------------------------------------------

function buildSwitches() {
  for (const [key, name] of Object.entries(SWITCHES)) {
    const made = element(byId("parts"), "label", `<input type="checkbox" data-switch="${key}"><span>${name}</span>`);
    made.firstChild.onchange = (event) => change({ on: { ...state.on, [key]: event.target.checked } });
  }
  for (const name of BLOCKS) {
    if (layerOf(name) === 1) element(byId("heads"), "h4", BLOCK_NAMES[name.split("/")[2]]);
    element(byId("heads"), "span", `layer ${layerOf(name)}`);
    const row = element(byId("heads"), "div", "", { class: "buttons", role: "group", "aria-label": blockName(name) });
    for (let h = 0; h < CONFIG.num_heads; h++)
      button(row, `${h + 1}`, "", () => switchHead(name, h, !state.on.heads[name][h]),
        { "data-name": name, "data-head": h, "aria-label": `${blockName(name)}, head ${h + 1}` });
  }
  for (const [name, [words, act]] of Object.entries(TOURS))
    button(byId("tours"), words, "", async () => {
      await change({ on: everything(), prefix: [], look: "", view: "" });
      await act();
    }, { "data-tour": name });
}

function switchHead(name, head, isOn) {
  const heads = { ...state.on.heads, [name]: state.on.heads[name].map((is, h) => h === head ? isOn : is) };
  return change({ on: { ...state.on, heads } });
}

function showSwitches() {
  for (const input of document.querySelectorAll("input[data-switch]")) input.checked = state.on[input.dataset.switch];
  for (const head of document.querySelectorAll("#heads button"))
    head.setAttribute("aria-pressed", state.on.heads[head.dataset.name][head.dataset.head]);
  const { edits } = state.on, box = byId("edits");
  box.innerHTML = edits.length ? "<h3>Weights of yours</h3><ul></ul>" : "";
  edits.forEach((e, i) => {
    const side = e.name.startsWith("encoder") ? "encoder" : "decoder", keySide = e.name.endsWith("mha1") ? "decoder" : "encoder";
    const name = (side, row) => idsOf(side)[row] === undefined ? `position ${row}` : html(idsOf(side)[row]);
    const item = element(box.lastChild, "li", `${name(side, e.row)} → ${name(keySide, e.key)}: <b>${percent(e.weight)}</b>
      <span class="muted">(${blockName(e.name)}, head ${e.head + 1})</span> `);
    button(item, "Undo", "", () => change({ on: { ...state.on, edits: edits.filter((_, j) => j !== i) } }, "play"));
  });
}

/** The step, head and row whose attention weights give the largest measure. */
function strongest(measure) {
  const best = { value: -1 };
  now.steps.forEach((step, i) => {
    if (step.kind !== "weights") return;
    for (let head = 0; head < CONFIG.num_heads; head++)
      idsOf(step.side).forEach((id, row) => {
        const weights = [step, whole.steps[i]].map((s) => [...rowOf(s.a.weights[head], row)]);
        const value = id === PAD ? -1 : measure(...weights, row, step);
        if (value > best.value) Object.assign(best, { value, head, row, step, weights });
      });
  });
  return best;
}

/** Says in a section what has happened, and shows the section. */
function tell(section, words) {
  const told = byId(section).querySelector(".told");
  if (!told.firstChild) byId(section).scrollIntoView();
  told.innerHTML = words;
}

const largest = (weights) => Math.max(...weights);
const without = (key) => change({ on: { ...everything(), [key]: false } });

/** Switches a part off, and goes to the row of attention weights that has the largest measure. */
async function showWithout(key, measure, say) {
  if (!await without(key)) return;
  const best = strongest(measure), { step, head, row, weights } = best;
  Object.assign(state, { step: stepKey(step), head, key: weights[0].indexOf(largest(weights[0])), view: "inside" });
  state.row[step.side] = row;
  show();
  const where = `Row “${html(idsOf(step.side)[row])}” of head ${head + 1} (${blockName(step.name)})`;
  tell("inside", `${where} ${say(best)} The model writes: <b lang="${TO}">${escape(text(out))}</b>`);
}

/** "Show me": words, and a function that starts with the whole model. */
const TOURS = {
  word: ["what follows another word", async () => {
    const choices = out.slice(0, -1).map((id, t) => {
      const p = rowOf(now.probabilities, t), other = largestOf(p, 2).find((each) => each !== id);
      return { id, t, p: p[id], other, pOther: p[other] };
    });
    const { id, t, p, other, pOther } = choices.sort((a, b) => b.pOther - a.pOther)[0];
    if (!await change({ prefix: [...out.slice(0, t), other], row: { ...state.row, decoder: t } })) return;
    tell("translation", `“${html(other)}” (${percent(pOther)}) instead of “${html(id)}” (${percent(p)}), and what follows.`);
  }],
  it: ["what “it” stands for", async () => {
    byId("text").value = DATA.coreference;
    if (!await change({ text: DATA.coreference })) return;
    const position = (word) => inp.findIndex((id) => label(id) === word), [it, animal] = [position("it"), position("animal")];
    const { step, head, value } = strongest((w, _, row, step) => step.side === "encoder" && row === it ? w[animal] : 0);
    Object.assign(state, { look: `${step.name}:${head + 1}`, row: { ...state.row, encoder: it } });
    show();
    tell("translation", `Head ${head + 1} of the ${blockName(step.name)}, gives ${percent(value)} of the weight of “it” to
      “animal”. Figure 4 of the paper shows such a head with “its”.`);
  }],
  scale: ["what the scale is for", () => showWithout("scale", (w, before) => largest(w) - largest(before),
    ({ weights: [w, before] }) => `has its largest weight rise from ${percent(largest(before))} to
      ${percent(largest(w))} without the scale.`)],
  lookAhead: ["what the look-ahead mask hides", () => showWithout("lookAhead",
    (w, _, row, step) => step.name.endsWith("mha1") ? sum(w.slice(row + 1)) : 0,
    ({ value }) => `gives ${percent(value)} of its weight to sub-words that come later. In training it would copy
      them instead of learning; when the model writes, the newest row has nothing later to see.`)],
  padding: ["what the padding mask hides", () => showWithout("padding",
    (w, _, row, step) => step.keySide === "encoder" ? sum(w.filter((_, key) => inp[key] === PAD)) : 0,
    ({ value }) => `gives ${percent(value)} of its weight to [PAD], which is no word.`)],
  weight: ["what an attention weight does", async () => {
    const best = strongest((w, _, row, step) => step.name === OPENING.split(".")[0] && out[row] !== END ? largest(w) : 0);
    const { step, head, row, value: weight, weights: [w] } = best, key = w.indexOf(weight), id = out[row];
    const before = rowOf(now.probabilities, row)[id], edit = { name: step.name, head, row, key, weight: 0 };
    Object.assign(state, { step: stepKey(step), head, key, row: { ...state.row, decoder: row }, view: "inside" });
    if (await change({ on: { ...everything(), edits: [edit] }, prefix: out.slice(0, row) }))
      tell("inside", `Where “${html(id)}” is written, head ${head + 1} gave ${percent(weight)} to “${html(inp[key])}”. With 0%
        instead, the probability of “${html(id)}” goes from ${percent(before)} to ${percent(rowOf(now.probabilities, row)[id])}.
        Move the slider below the table.`);
  }],
  positions: ["a sentence without positions", async () =>
    await without("positions") && tell("translation", "Without positions the encoder reads a bag of words.")],
  residual: ["a model without residual connections", async () =>
    await without("residual") && tell("translation", "Without residual connections each sub-layer loses its input.")],
  head: ["the head that this sentence needs most", async () => {
    const mine = run, heads = BLOCKS.flatMap((name) => state.on.heads[name].map((_, h) => [name, h]));
    const logProb = (result) => sum(out.map((id, t) => Math.log(rowOf(result.probabilities, t)[id])));
    const falls = [];
    for (const [name, h] of heads) {
      const on = everything();
      on.heads[name][h] = false;
      falls.push(logProb(whole) - logProb(transformer(inp, tar, on)));
      tell("translation", `${falls.length} of ${heads.length} heads`);
      await new Promise((resolve) => setTimeout(resolve));
      if (mine !== run) return;
    }
    const most = falls.indexOf(Math.max(...falls)), [name, h] = heads[most];
    const few = falls.filter((fall) => Math.abs(fall) < 0.1).length;
    if (await switchHead(name, h, false))
      tell("translation", `Without head ${h + 1} of the ${blockName(name)}, the log-probability of the translation
        falls by ${f(falls[most])}, the most of all; ${few} of ${heads.length} heads change it by less than 0.1.`);
  }],
};

// ---- Beam search ------------------------------------------------------------------------------

function showBeam() {
  const { ended, steps } = found, best = ended[0].ids.join();
  const last = Math.max(...ended.map(({ ids }) => ids.length));
  byId("beam-text").innerHTML = `<p>Each line has the ${state.beam === 1 ? "sub-word that is" : `${state.beam} most
    probable beginnings that are`} kept after one more sub-word, each with its log-probability. The thick path
    becomes the translation. ${state.beam === 1 ? "This is greedy search." : ""}</p>
    <p class="muted">The score is the log-probability divided by the length penalty ((5 + length) / 6)<sup>α</sup>,
    here with α = ${f(state.alpha, 1)}. The search stops when no beginning can still become better than the first
    line of the table.</p>`;
  const isBest = (ids) => best === ids.join() || best.startsWith(`${ids.join()},`) || !ids.length;
  const rows = [[{ ids: [], logProb: 0 }], ...steps.slice(0, last).map((alive, t) => [
    ...ended.filter(({ ids }) => ids.length === t + 1), ...(t + 1 < last ? alive : [])])];
  const columns = Math.max(...rows.map((row) => row.length)), width = byId("tree").clientWidth;
  const W_ = Math.min(150, width / columns), isWide = W_ >= 104, H = isWide ? 26 : 40, PITCH = H + 20;
  const places = {}, paths = [], nodes = [];
  rows.slice(0, shown + 1).forEach((row, t) => row.forEach(({ ids, logProb }, column) => {
    const x = column * W_, y = t * PITCH + 2, style = isBest(ids) ? "best" : "", parent = places[ids.slice(0, -1).join()];
    const middle = x + W_ / 2;
    if (t) paths.push(`<path class="${style}" d="M${parent.middle},${parent.bottom}C${parent.middle},${y - 8} ${middle},${
      parent.bottom + 8} ${middle},${y}"/>`);
    places[ids.join()] = { middle, bottom: y + H };
    const name = t ? label(ids[t - 1]) : "[START]", fits = Math.floor((W_ - 8) / 7.2) - (isWide ? 6 : 0);
    const short = escape(name.length > fits ? `${name.slice(0, fits - 1)}…` : name);
    nodes.push(`<g class="${style}"><title>${escape(name)}</title><rect rx="5" x="${x + 3}" y="${y}" width="${W_ - 6}" height="${H}"/>${isWide
      ? `<text x="${middle}" y="${y + 18}">${short} ${f(logProb)}</text>`
      : `<text x="${middle}" y="${y + 16}">${short}</text><text x="${middle}" y="${y + 33}">${f(logProb)}</text>`}</g>`);
  }));
  const height = rows.length * PITCH;
  byId("tree").innerHTML = `<svg viewBox="0 0 ${width} ${height}" height="${height}">${paths.join("")}${nodes.join("")}</svg>`;
  const texts = ended.map(({ ids }) => escape(text(ids)));
  byId("ended").innerHTML = tableOf(["ended with [END]", "log-prob.", "score"], ended.map(({ logProb, score }, i) =>
    [`<span lang="${TO}">${texts[i]}</span>${texts.indexOf(texts[i]) < i ? " (the same in other sub-words)" : ""}`,
      f(logProb), f(score)]));
}

// ---- Every number on the way ------------------------------------------------------------------

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
    ? (state.on.lookAhead ? "Each row may see itself and what was written before it. Later sub-words get −∞."
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
    `FFN(<i>x</i>) = max(0, <i>xW</i><sub>1</sub> + <i>b</i><sub>1</sub>)<i>W</i><sub>2</sub> + <i>b</i><sub>2</sub>`,
    `Back to ${CONFIG.d_model} numbers.`],
  logits: () => ["Logits", `<i>XE</i><sup>T</sup>`, `The last vector times the embedding of each of the
    ${DATA.vocabulary.length.toLocaleString("en")} sub-words: the table <i>E</i> of the first step again.`],
  probabilities: () => ["Probabilities", `softmax(<i>XE</i><sup>T</sup>)`,
    "How probable each sub-word is as the next one."],
  next: () => ["The next sub-word", "", state.beam === 1 ? "Greedy search writes the most probable sub-word of each row."
    : "Beam search may write another sub-word than the most probable one, where the whole becomes more probable."],
};

/** Draws the current step. */
function showStep() {
  const index = indexOfStep(), step = now.steps[index];
  const [title, equation, explanation] = KINDS[step.kind](step);
  const block = BLOCK_NAMES[step.name.split("/")[2]]?.replace(/(encoder|decoder) self/, "self");
  const side = step.side === "encoder" ? "Encoder" : "Decoder";
  byId("title").textContent = [side + (step.layer ? ` layer ${step.layer} of ${CONFIG[`num_${step.side}_layers`]}` : ""),
    block, title].filter(Boolean).join(" · ");
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
    const order = weights.map((w, key) => [w, key]).sort((x, y) => y[0] - x[0]).slice(0, 4)
      .filter(([w], i) => !i || w >= 0.005);
    element(view, "p", state.on.heads[step.name][state.head]
      ? `<i>z</i> = ${order.map(([w, key]) => `${f(w)} <i>v</i>(${rowName(step.keySide, key)})`).join(" + ")} + …`
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
    paint(canvas, matrix(1, tensor.columns, rowOf(tensor, row)), (x) => [...(x > 0 ? PLUS : MINUS), Math.abs(x) / largest]);
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

const isHidden = (a, head, i) => a.masked[head].data[i] < -1e8;

function showHeads(view, step) {
  const heads = element(view, "div", "", { class: "heads", role: "group", "aria-label": "Head" });
  const names = step.a.weights.map((_, h) => `<canvas></canvas>head ${h + 1}${
    state.on.heads[step.name][h] ? "" : " (off)"}`);
  choices(heads, names, state.head, "head", (h) => { state.head = h; });
  heads.querySelectorAll("canvas").forEach((canvas, h) => paint(canvas, step.a.weights[h],
    (w, i) => isHidden(step.a, h, i) ? [...GREY, 0.45] : [...BLUE, w]));
}

/** A map: rows are queries, columns are keys. */
function showMap(view, step) {
  const a = step.a[step.kind][state.head], isWeights = step.kind === "weights";
  const keys = idsOf(step.keySide), queries = idsOf(step.side);
  state.key = Math.min(state.key, keys.length - 1);
  const row = state.row[step.side], visible = [...a.data].filter((x) => x > -1e8);
  const largest = isWeights ? 1 : Math.max(...visible.map(Math.abs));
  const showsHidden = (isWeights || step.kind === "masked") && step.a.masked[state.head].data.some((x) => x < -1e8);
  const cells = (q) => keys.map((_, k) => {
    const i = q * a.columns + k, x = a.data[i], isHere = q === row && k === state.key;
    const hidden = showsHidden && isHidden(step.a, state.head, i);
    const kind = hidden ? "hidden" : isWeights ? "weight" : x < 0 ? "minus" : "";
    const color = hidden ? "" : `style="--w:${Math.round(100 * Math.abs(x) / largest)}"`;
    return `<td role="gridcell" id="cell-${q}-${k}" class="${kind}${isHere ? " here" : ""}" ${color}>${
      isWeights && hidden ? "" : isWeights ? f(100 * x, 0) : f(x, 1)}</td>`;
  }).join("");
  const rows = queries.map((id, q) => `<tr class="${q === row ? "row" : ""}"><th scope="row">${html(id)}${
    step.side === "decoder" ? ` <span class="muted">→ ${html(out[q])}</span>` : ""}</th>${cells(q)}</tr>`);
  const heading = window.innerWidth < 700 ? 104 : 152, wide = isWeights ? 60 : 66;
  const room = Math.min(wide, (view.clientWidth - heading) / keys.length);
  const box = element(view, "div", `<table class="map ${room < (isWeights ? 25 : 44) ? "narrow" : ""}" role="grid" tabindex="0"
    data-focus="map" style="max-width:${heading + wide * keys.length}px"
    aria-label="${KINDS[step.kind](step)[0]}, head ${state.head + 1}" aria-activedescendant="cell-${row}-${state.key}"
    ><thead><tr><th></th>${keys.map((id) => `<th scope="col">${html(id)}</th>`).join("")}</tr></thead>
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
    scaled: state.on.scale ? `${f(number("scores"))} / √${DEPTH} = <b>${f(number("scaled"))}</b>` : f(number("scaled")),
    masked: number("masked") < -1e8 ? `${k} is hidden from ${q}` : `${k} is visible to ${q}: <b>${f(number("masked"))}</b>`,
    weights: `${q} takes <b>${percent(number("weights"))}</b> of its value from ${k}`,
  }[step.kind]);
  if (isWeights) showEdit(view, step, row, number("weights"));
  element(view, "p", `${showsHidden ? `<span class="swatch"></span> hidden by the mask. ` : ""}${
    isWeights ? "Weights in percent. " : ""}Rows are queries (the sub-word that is read${
    step.side === "decoder" ? " → the one that is written" : ""}), columns are keys. Shape
    <span class="shape">(1, ${CONFIG.num_heads}, ${a.rows}, ${a.columns})</span>. Choose a cell, or use the arrow keys.`,
  { class: "muted" });
}

/** A slider for the chosen weight. */
function showEdit(view, step, row, weight) {
  const at = { name: step.name, head: state.head, row, key: state.key };
  const others = state.on.edits.filter((e) => Object.keys(at).some((name) => e[name] !== at[name]));
  const line = element(view, "div", `<label for="weight">Give it another weight</label>
    <input type="range" id="weight" min="0" max="100" value="${Math.round(100 * weight)}" data-focus="weight">`, { class: "edit" });
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
  element(view, "div", order.map((id) => `<span>${id === out[row] ? `<b>${html(id)}</b>` : html(id)}</span>
    <i style="width:${Math.max(0, 100 * values[id] / largest)}%"></i><span>${number(values[id])}${
    isChanged() ? ` <span class="muted">(was ${number(before[id])})</span>` : ""}</span>`).join(""), { class: "bars" });
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
const [ROSE, ORANGE, YELLOW, SKY, LILAC, GREEN] = ["#FBE3E4", "#FCE0BB", "#F3F6C2", "#C5E8F7", "#DDE0F1", "#CBE6D0"];
const subLayer = (side, name, number, words, color) => [[`${side}/${NORM}${number}`, "Norm", YELLOW],
  [`${side}/${name}`, words, color], [`${side}/${name}/add`, "+"]];
const START_OF = (side, words) => [[side, words, ""], [`${side}/embedding`, "Embedding", ROSE], [`${side}/positions`, "+"]];
const FIGURE = {
  encoder: [...START_OF("encoder", "Source"),
    ...subLayer("encoder", "mha", 1, "Multi-Head\nAttention", ORANGE),
    ...subLayer("encoder", "ffn", 2, "Feed\nForward", SKY), [`encoder/${NORM}`, "Norm", YELLOW]],
  decoder: [...START_OF("decoder", "Output, shifted right"),
    ...subLayer("decoder", "mha1", 1, "Masked Multi-\nHead Attention", ORANGE),
    ...subLayer("decoder", "mha2", 2, "Multi-Head\nAttention", ORANGE),
    ...subLayer("decoder", "ffn", 3, "Feed\nForward", SKY), [`decoder/${NORM}`, "Norm", YELLOW],
    ["decoder/logits", "Linear", LILAC], ["decoder/probabilities", "Softmax", GREEN], ["decoder/next", "Next sub-word", ""]],
};

function drawFigure() {
  const [HEIGHT, GAP, HALF] = [600, 13, 52], parts = [], boxes = {};
  const line = (points, arrow = true) => parts.push(`<path d="M${points.join("L")}"${
    arrow ? ' marker-end="url(#arrow)"' : ""}/>`);
  for (const [side, list] of Object.entries(FIGURE)) {
    const x = side === "encoder" ? 76 : 214;
    let bottom = HEIGHT - 2;
    for (const [key, words, color] of list) {
      const height = words === "+" ? 16 : 8 + 15 * words.split("\n").length;
      boxes[key] = { key, words, color, x, bottom, top: bottom - height, side };
      bottom -= height + GAP;
    }
  }
  const keys = Object.keys(boxes);
  for (const side of ["encoder", "decoder"]) {
    const inside = keys.filter((key) => boxes[key].side === side && !/(positions|embedding|logits|softmax)$/.test(key))
      .filter((key) => key.endsWith("/add") || /\d$/.test(key));
    const [first, last] = [boxes[inside[0]], boxes[inside[inside.length - 1]]], top = last.top - 6;
    parts.push(`<rect class="stack" rx="8" x="${first.x - 66}" y="${top}" width="132" height="${first.bottom + 10 - top}"/>`);
    parts.push(`<g class="plain"><text x="${first.x + (side === "encoder" ? -1 : 1) * 80}" y="${(top + first.bottom) / 2}" style="font-size:15px">${
      CONFIG[`num_${side}_layers`]}×</text></g>`);
  }
  keys.forEach((key, i) => {
    const box = boxes[key], under = boxes[keys[i - 1]];
    if (under?.side === box.side) line([[box.x, under.top], [box.x, box.bottom + 1]]);
    if (!key.endsWith("/add")) return;
    const out = box.side === "encoder" ? -60 : 60, from = boxes[keys[i - 2]].bottom + GAP / 2, y = (box.top + box.bottom) / 2;
    line([[box.x, from], [box.x + out, from], [box.x + out, y], [box.x + Math.sign(out) * 9, y]]);
  });
  const encoded = boxes[`encoder/${NORM}`], cross = boxes["decoder/mha2"], y = (cross.top + cross.bottom) / 2, middle = 145;
  line([[encoded.x, encoded.top], [encoded.x, encoded.top - 10], [middle, encoded.top - 10], [middle, y], [cross.x - HALF, y]]);
  for (const { key, words, color, x, bottom, top, side } of Object.values(boxes)) {
    const lines = words.split("\n"), center = (top + bottom) / 2;
    const drawn = words === "+" ? `<circle cx="${x}" cy="${center}" r="8"/><path d="M${x - 5},${center}h10M${x},${center - 5}v10"/>`
      : `<rect rx="4" x="${x - HALF}" y="${top}" width="${2 * HALF}" height="${bottom - top}" fill="${color || "transparent"}"/>${
        lines.map((word, i) => `<text x="${x}" y="${center + 4.5 + 15 * (i - (lines.length - 1) / 2)}">${word}</text>`).join("")}`;
    const name = words === "+" ? (key.endsWith("/add") ? "residual connection" : "positional encoding") : words.replace("\n", " ");
    parts.push(`<g class="box ${color ? "" : "plain"}" data-box="${key}" role="button" tabindex="0"
      aria-label="${side}: ${name}">${drawn}</g>`);
  }
  document.querySelector("#figure div").innerHTML = `<svg viewBox="-20 0 330 ${HEIGHT}" role="group" aria-label="Figure 1 of the paper">
    <marker id="arrow" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0L6,3L0,6z"
    /></marker>${parts.join("")}</svg>`;
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

// ---- Start ------------------------------------------------------------------------------------

async function start() {
  await loadModel();
  const count = sum(Object.values(W).map((w) => w.data.length));
  byId("about").innerHTML = `This page <b>is</b> a Transformer: ${(count / 1e6).toFixed(1)} million weights translate
    ${language(FROM)} into ${language(TO)}. Type a sentence, choose a word, switch a part off.`;
  byId("model").textContent = DATA.model;
  buildTranslation();
  buildSwitches();
  drawFigure();
  byId("step").oninput = (event) => goTo(Number(event.target.value));
  byId("previous").onclick = () => goTo(indexOfStep() - 1);
  byId("next").onclick = () => goTo(indexOfStep() + 1);
  const isLink = location.hash.length > 1;
  await open();
  document.body.dataset.ready = "true";
  if (!isLink && !matchMedia("(prefers-reduced-motion: reduce)").matches) play();
  window.onhashchange = open;
  window.onresize = show;
}
start().catch((error) => {
  byId("about").textContent = `This page needs a browser of 2023 or later (${error.message}).`;
  throw error;
});
