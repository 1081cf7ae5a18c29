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
/** Whether a sentence has no sub-word. */
const isBlank = (sentence) => SOURCE.encode(sentence).length === 1;

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
  const inside = (x, least, most, other = least) =>
    Number.isFinite(x) ? Math.max(least, Math.min(most, x)) : other;
  const number = (name, ...range) => inside(parseFloat(given.get(name)), ...range);
  const ofBlocks = (name) => list(name).map((each) => each.split(":"))
    .filter(([block]) => BLOCKS.includes(block))
    .map(([block, ...numbers]) => [block, ...numbers.map(Number)]);
  const id = (piece) => TARGET.pieces.indexOf(piece.replace(/^_/, BLANK));
  const isHead = (head) => Number.isInteger(head) && head >= 1 && head <= CONFIG.num_heads;
  const longest = byId("text").maxLength, typed = (given.get("text") ?? "").slice(0, longest);
  const begin = (given.get("begin") ?? "").split(" ").map(id)
    .filter((each) => each >= 0 && each !== PAD && each !== START).slice(0, longest);
  const [encoder, decoder] = [0, 1].map((i) => inside(parseInt(list("rows")[i]), 0, CONFIG.pe_input));
  const on = everything(), look = given.get("look") ?? "";
  list("off").filter((key) => key in SWITCHES).forEach((key) => { on[key] = false; });
  ofBlocks("heads").filter(([, h]) => isHead(h)).forEach(([name, h]) => { on.heads[name][h - 1] = false; });
  on.edits = ofBlocks("weights").map(([name, head, row, key, weight]) =>
    ({ name, head: head - 1, row, key, weight: inside(weight, 0, 1) }))
    .filter(({ head, row, key }) => isHead(head + 1) && [row, key].every((i) => Number.isInteger(i) && i >= 0));
  Object.assign(state, {
    on, text: isBlank(typed) ? DATA.examples[0] : typed,
    beam: Math.round(number("beam", 1, MAX_BEAM, DECODE.beam_size)),
    alpha: number("penalty", 0, 2, DECODE.length_penalty),
    look: [...byId("look").options].some(({ value }) => value === look) ? look : "",
    prefix: begin.includes(END) ? begin.slice(0, begin.indexOf(END) + 1) : begin,
    step: given.get("step") ?? OPENING, view: given.get("view") ?? "", row: { encoder, decoder },
    head: Math.round(number("head", 1, CONFIG.num_heads)) - 1,
    key: Math.round(number("key", 0, CONFIG.pe_input)),
  });
}

/** Opens the state of the address, at the place that it names, or with the tour that it names. */
async function open() {
  const tour = new URLSearchParams(location.hash.slice(1)).get("tour");
  readFragment();
  byId("text").value = state.text;
  if (!await compute()) return;
  byId(state.view)?.scrollIntoView();
  if (Object.hasOwn(TOURS, tour)) await TOURS[tour][1]();
}

/** Translates the sentence with the model as it is switched. Returns false when a new run began. */
async function compute() {
  const mine = ++run;
  stop();
  document.querySelectorAll(".told").forEach((output) => output.replaceChildren());
  document.body.dataset.busy = "true";
  if (isBlank(byId("text").value)) byId("text").value = state.text;
  inp = padded(SOURCE.encode(state.text));
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

function showTranslation() {
  byId("written").textContent = text(out.slice(0, shown));
  byId("beam-size").value = state.beam;
  byId("penalty").value = state.alpha;
  byId("penalty-value").textContent = f(state.alpha, 1);
  byId("look").value = state.look;
  showPicture();
  showCandidates();
}

/** Keys on the left, queries on the right, lines as thick as the weights: of a head, or the mean of several. */
function showPicture() {
  const [name, head] = state.look.split(":"), HEIGHT = 2.1;
  const isLookedAt = (s) => name ? s.name === name : s.name.endsWith("mha2");
  const steps = now.steps.filter((s) => s.kind === "weights" && isLookedAt(s));
  const maps = steps.flatMap((s) => head ? [s.a.weights[head - 1]] : s.a.weights);
  const weights = map(maps[0], (_, row, key) => sum(maps.map((m) => rowOf(m, row)[key])) / maps.length);
  const [{ side, keySide }] = steps, writes = side === "decoder", chosen = state.row[side];
  const sources = state.on.padding ? inp.slice(0, -PADDING) : inp;
  const left = keySide === "encoder" ? sources : tar.slice(0, shown);
  const right = writes ? out.slice(0, shown) : sources;
  const count = Math.max(sources.length, out.length), row = rowOf(weights, chosen), picture = byId("picture");
  byId("picture-title").textContent = `Where the ${side} looks as it ${writes ? "writes" : "reads"}`;
  picture.replaceChildren();
  const source = (id, key) => `<li class="source" style="--w:${Math.round(80 * row[key])}">
    <small>${row[key] >= 0.01 ? `${f(100 * row[key], 0)}%` : ""}</small>${html(id)}</li>`;
  element(picture, "ol", left.map(source).join(""), { "aria-label": "looks at" });
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
  const seen = state.on.lookAhead ? "" : "Without the look-ahead mask it has seen what it should predict.";
  element(box, "p", `The most probable next sub-words. Choose another, and the model goes on from there. ${seen}`,
    { class: "muted" });
  const order = largestOf(p, 6);
  if (!order.includes(out[t])) order.push(out[t]);
  for (const id of order)
    button(box, `<span>${html(id)}</span><i style="width:${100 * p[id] / p[order[0]]}%"></i>
      <span>${percent(p[id])}</span>`, `candidate${id}`, () => change({ prefix: [...out.slice(0, t), id] }),
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
  const ask = async (text) => {
    if (!isBlank(text))
      return change({ text, prefix: [], row: { encoder: 0, decoder: 0 }, on: { ...state.on, edits: [] } });
    stop();
    byId("written").textContent = "";
    return false;
  };
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
  byId("penalty").oninput = (event) => {
    byId("penalty-value").textContent = f(Number(event.target.value), 1);
  };
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
        element(group, "option", `${words.split(" ")[0]}, layer ${layerOf(name)}, head ${h}`,
          { value: `${name}:${h}` });
  }
  byId("look").onchange = (event) => { state.look = event.target.value; show(); };
}

// ---- Switches ---------------------------------------------------------------------------------

function buildSwitches() {
  for (const [key, name] of Object.entries(SWITCHES)) {
    const made = element(byId("parts"), "label",
      `<input type="checkbox" data-switch="${key}"><span>${name}</span>`);
    made.firstChild.onchange = (event) => change({ on: { ...state.on, [key]: event.target.checked } });
  }
  for (const name of BLOCKS) {
    if (layerOf(name) === 1) element(byId("heads"), "h4", BLOCK_NAMES[name.split("/")[2]]);
    element(byId("heads"), "span", `layer ${layerOf(name)}`);
    const row = element(byId("heads"), "div", "",
      { class: "buttons", role: "group", "aria-label": blockName(name) });
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
  for (const input of document.querySelectorAll("input[data-switch]"))
    input.checked = state.on[input.dataset.switch];
  for (const head of document.querySelectorAll("#heads button"))
    head.setAttribute("aria-pressed", state.on.heads[head.dataset.name][head.dataset.head]);
  const { edits } = state.on, box = byId("edits");
  box.innerHTML = edits.length ? "<h3>Weights of yours</h3><ul></ul>" : "";
  edits.forEach((e, i) => {
    const { side, keySide } = now.steps.find(({ kind, name }) => kind === "weights" && name === e.name);
    const name = (side, row) => idsOf(side)[row] === undefined ? `position ${row}` : html(idsOf(side)[row]);
    const item = element(box.lastChild, "li", `${name(side, e.row)} → ${name(keySide, e.key)}:
      <b>${percent(e.weight)}</b> <span class="muted">(${blockName(e.name)}, head ${e.head + 1})</span> `);
    const others = edits.filter((_, j) => j !== i);
    button(item, "Undo", "", () => change({ on: { ...state.on, edits: others } }, "play"));
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
  const most = weights[0].indexOf(largest(weights[0]));
  Object.assign(state, { step: stepKey(step), head, key: most, view: "inside" });
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
    tell("translation", `“${html(other)}” (${percent(pOther)}) instead of “${html(id)}” (${percent(p)}), and
      what follows.`);
  }],
  it: ["what “it” stands for", async () => {
    byId("text").value = DATA.coreference;
    if (!await change({ text: DATA.coreference })) return;
    const [it, animal] = ["it", "animal"].map((word) => inp.findIndex((id) => label(id) === word));
    const { step, head, value } = strongest((w, _, row, { side }) =>
      side === "encoder" && row === it ? w[animal] : 0);
    Object.assign(state, { look: `${step.name}:${head + 1}`, row: { ...state.row, encoder: it } });
    show();
    tell("translation", `Head ${head + 1} of the ${blockName(step.name)}, gives ${percent(value)} of the weight of
      “it” to “animal”, the most of all heads of this small model. In Figure 4 of the paper, two heads
      attend sharply from “its”.`);
  }],
  scale: ["what the scale is for", () => showWithout("scale", (w, before) => largest(w) - largest(before),
    ({ weights: [w, before] }) => `has its largest weight rise from ${percent(largest(before))} to
      ${percent(largest(w))} without the scale.`)],
  lookAhead: ["what the look-ahead mask hides", () => showWithout("lookAhead",
    (w, _, row, step) => step.name.endsWith("mha1") ? sum(w.slice(row + 1)) : 0,
    ({ value }) => `gives ${percent(value)} of its weight to sub-words that come later. In training it
      would copy them instead of learning; when the model writes, the newest row has nothing later to see.`)],
  padding: ["what the padding mask hides", () => showWithout("padding",
    (w, _, row, step) => step.keySide === "encoder" ? sum(w.filter((_, key) => inp[key] === PAD)) : 0,
    ({ value }) => `gives ${percent(value)} of its weight to [PAD], which is no word.`)],
  weight: ["what an attention weight does", async () => {
    const { step, head, row, value: weight, weights: [w] } = strongest((w, _, row, step) =>
      stepKey(step) === OPENING && out[row] !== END ? largest(w) : 0);
    const key = w.indexOf(weight), id = out[row], p = () => percent(rowOf(now.probabilities, row)[id]);
    const before = p(), edit = { name: step.name, head, row, key, weight: 0 };
    Object.assign(state, { step: OPENING, head, key, row: { ...state.row, decoder: row }, view: "inside" });
    if (await change({ on: { ...everything(), edits: [edit] }, prefix: out.slice(0, row) }))
      tell("inside", `Where “${html(id)}” is written, head ${head + 1} gave ${percent(weight)} to
        “${html(inp[key])}”. With 0% instead, the probability of “${html(id)}” goes from ${before} to ${p()}.
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
      tell("translation", `Without head ${h + 1} of the ${blockName(name)}, the log-probability of the
        translation falls by ${f(falls[most])}, the most of all; ${few} of ${heads.length} heads change it by
        less than 0.1.`);
  }],
};

// ---- Beam search ------------------------------------------------------------------------------

function showBeam() {
  const { ended, steps } = found, best = ended[0].ids.join();
  const last = Math.max(...ended.map(({ ids }) => ids.length));
  const kept = state.beam === 1 ? "sub-word that greedy search writes, with its"
    : `${state.beam} most probable beginnings that are kept after one more sub-word, each with its`;
  byId("beam-text").innerHTML = `<p>Each line has the ${kept} log-probability. The thick path becomes the
    translation.</p><p class="muted">The score is the log-probability divided by the length penalty
    ((5 + length) / 6)<sup>α</sup>, here with α = ${f(state.alpha, 1)}. The search stops when no beginning can
    still become better than the first line of the table.</p>`;
  const isBest = (ids) => best === ids.join() || best.startsWith(`${ids.join()},`) || !ids.length;
  const rows = [[{ ids: [], logProb: 0 }], ...steps.slice(0, last).map((alive, t) => [
    ...ended.filter(({ ids }) => ids.length === t + 1), ...(t + 1 < last ? alive : [])])];
  const columns = Math.max(...rows.map((row) => row.length)), width = byId("tree").clientWidth;
  const W_ = Math.min(150, width / columns), isWide = W_ >= 104, H = isWide ? 26 : 40, PITCH = H + 20;
  const places = {}, paths = [], nodes = [];
  rows.slice(0, shown + 1).forEach((row, t) => row.forEach(({ ids, logProb }, column) => {
    const x = column * W_, y = t * PITCH + 2, middle = x + W_ / 2, style = isBest(ids) ? "best" : "";
    const from = places[ids.slice(0, -1).join()], at = (...point) => point.join();
    if (t) paths.push(`<path class="${style}" d="M${at(from.middle, from.bottom)}C${at(from.middle, y - 8)} ${
      at(middle, from.bottom + 8)} ${at(middle, y)}"/>`);
    places[ids.join()] = { middle, bottom: y + H };
    const name = t ? label(ids[t - 1]) : "START", fits = Math.floor((W_ - 8) / 7.2) - (isWide ? 6 : 0);
    const short = escape(name.length > fits ? `${name.slice(0, fits - 1)}…` : name);
    const lines = isWide ? [`${short} ${f(logProb)}`] : [short, f(logProb)];
    nodes.push(`<g class="${style}"><title>${escape(name)}</title>
      <rect rx="5" x="${x + 3}" y="${y}" width="${W_ - 6}" height="${H}"/>${
      lines.map((words, i) => `<text x="${middle}" y="${y + 17 + 17 * i}">${words}</text>`).join("")}</g>`);
  }));
  const height = rows.length * PITCH;
  byId("tree").innerHTML = `<svg viewBox="0 0 ${width} ${height}" height="${height}">${
    paths.join("")}${nodes.join("")}</svg>`;
  const texts = ended.map(({ ids }) => escape(text(ids)));
  const again = (i) => texts.indexOf(texts[i]) < i ? " (the same in other sub-words)" : "";
  byId("ended").innerHTML = tableOf(["ended with [END]", "log-prob.", "score"], ended.map((h, i) =>
    [`<span lang="${TO}">${texts[i]}</span>${again(i)}`, f(h.logProb), f(h.score)]));
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
  let width = innerWidth;               // the keyboard of a phone changes the height only
  window.onresize = () => {
    if (innerWidth !== width) show();
    width = innerWidth;
  };
}
start().catch((error) => {
  byId("about").textContent = `This page could not start: ${error.message}. It needs a browser of 2023 or later.`;
  throw error;
});
