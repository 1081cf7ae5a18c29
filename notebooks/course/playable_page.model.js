"use strict";
// The Transformer of the page: its weights, tokenizer, layers and search, with the names of the paper.
// It knows nothing of what is shown.

const DATA = JSON.parse(document.getElementById("data").textContent);
const { config: CONFIG, decode: DECODE } = DATA;
const [PAD, UNK, START, END] = [0, 1, 2, 3];
const BLANK = "\u2581";               // how sub-words write a blank
const PADDING = 2;                    // [PAD]s after each source, as in a batch of longer ones
const DEPTH = CONFIG.d_model / CONFIG.num_heads;    // d_k = d_v

// ---- The weights ------------------------------------------------------------------------------

const W = {};                         // name -> matrix; a kernel is transposed: a row for each output
const TYPES = { int8: Int8Array, uint8: Uint8Array, float32: Float32Array };

/** Reads the arrays of the page: base64 of gzip of their bytes, one after the other. */
async function unpack(base64) {
  const text = atob(base64), packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer(), arrays = {};
  let start = 0;
  for (const [name, [type, shape]] of Object.entries(DATA.arrays)) {
    const end = start + shape.reduce((a, b) => a * b, TYPES[type].BYTES_PER_ELEMENT);
    arrays[name] = new TYPES[type](buffer.slice(start, end));
    start = end;
  }
  return arrays;
}

/** Makes the weights: whole numbers from -127 to 127, times the scale of their row; or numbers. */
function setWeights(arrays) {
  for (const [name, [, [rows, columns]]] of Object.entries(DATA.arrays)) {
    if (!name.endsWith(".int8")) {
      if (/(bias|gamma|beta)$/.test(name)) W[name] = matrix(1, rows, arrays[name]);
      continue;
    }
    const weight = name.slice(0, -5), whole = arrays[name], scales = arrays[`${weight}.scale`];
    W[weight] = matrix(rows, columns);
    for (let row = 0, i = 0; row < rows; row++)
      for (const end = i + columns; i < end; i++) W[weight].data[i] = whole[i] * scales[row];
  }
}

// ---- The tokenizer: SentencePiece, a unigram language model (Kudo 2018) -----------------------

class Tokenizer {
  /**
   * pieces and scores: of each id; a sub-word for each byte is among them, such as <0x0A>.
   * charsmap: the rules of normalization, a trie (Darts) of UTF-8 bytes and the replacements.
   */
  constructor(pieces, scores, charsmap) {
    [this.pieces, this.scores] = [pieces, scores];
    this.bytes = new Map();           // byte -> id
    this.ids = new Map();             // sub-word -> id, without bytes and special tokens
    pieces.forEach((piece, id) => {
      const byte = piece.match(/^<0x(..)>$/);
      if (byte) this.bytes.set(parseInt(byte[1], 16), id);
      else if (id > END) this.ids.set(piece, id);
    });
    const ids = [...this.ids.values()];
    this.unknownScore = Math.fround(ids.reduce((least, id) => Math.min(least, scores[id]), 0) - 10);
    this.longest = [...this.ids.keys()].reduce((most, piece) => Math.max(most, piece.length), 0);
    const [size] = new Uint32Array(charsmap.buffer.slice(0, 4));
    this.trie = new Uint32Array(charsmap.buffer.slice(4, 4 + size));
    this.replacements = charsmap.subarray(4 + size);
  }

  /** The longest rule that matches the bytes from a position on, or else one character. */
  replace(bytes, start) {
    const offset = (unit) => unit >>> 10 << ((unit & 512) >>> 6);
    const hasValue = (unit) => unit >>> 8 & 1;
    let node = offset(this.trie[0]), end = start, found = -1;
    for (let i = start; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = this.trie[node];
      if ((unit & 0x800000ff) !== bytes[i]) break;
      node ^= offset(unit);
      if (hasValue(unit)) [found, end] = [this.trie[node] & 0x7fffffff, i + 1];
    }
    const decode = (part) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(part);
    if (found >= 0) {
      const text = this.replacements.subarray(found);
      return [decode(text.subarray(0, text.indexOf(0))), end];
    }
    end = start + 1;
    while (bytes[end] >> 6 === 2) end++;
    return [decode(bytes.subarray(start, end)), end];
  }

  /** Applies the rules; single blanks, one before the first word, none at the end. */
  normalize(text) {
    const bytes = new TextEncoder().encode(text);
    let normal = " ";
    for (let start = 0, part; start < bytes.length;) {
      [part, start] = this.replace(bytes, start);
      normal += normal.endsWith(" ") ? part.replace(/^ +/, "") : part;
    }
    return normal.replaceAll(" ", BLANK).replace(/\u2581+$/, "");
  }

  /** Text -> ids and [END]: the most probable sub-words (Viterbi), in float32 as SentencePiece. */
  encode(text) {
    const characters = [...this.normalize(text)], best = [{ score: 0 }];
    for (let start = 0; start < characters.length; start++) {
      const offer = (end, id, score) => {
        const sum = Math.fround(best[start].score + score);
        if (!best[end] || sum > best[end].score) best[end] = { score: sum, id, start };
      };
      let piece = "";
      for (let end = start; end < characters.length && piece.length < this.longest;) {
        piece += characters[end++];
        const id = this.ids.get(piece);
        if (id !== undefined) offer(end, id, this.scores[id]);
        else if (end === start + 1) offer(end, UNK, this.unknownScore);
      }
    }
    const ids = [END];
    for (let end = characters.length; end > 0; end = best[end].start) {
      const { id, start } = best[end];
      const unknown = () => [...new TextEncoder().encode(characters[start])].map((b) => this.bytes.get(b));
      ids.unshift(...(id === UNK ? unknown() : [id]));
    }
    return ids;
  }

  /** Ids -> text. */
  decode(ids) {
    const texts = { [PAD]: "", [UNK]: " \u2047 ", [START]: "", [END]: "" };
    const bytes = ids.flatMap((id) => {
      const byte = this.pieces[id].match(/^<0x(..)>$/);
      return byte ? parseInt(byte[1], 16) : [...new TextEncoder().encode(texts[id] ?? this.pieces[id])];
    });
    const text = new TextDecoder().decode(Uint8Array.from(bytes));
    return text.replaceAll(BLANK, " ").replace(/^ +/, "");
  }
}
let SOURCE, TARGET;                   // the tokenizers of both sides

// ---- Matrices ---------------------------------------------------------------------------------

/** A matrix has rows, columns, and its numbers row by row. */
const matrix = (rows, columns, data = new Float32Array(rows * columns)) => ({ rows, columns, data });
const rowOf = (a, row) => a.data.subarray(row * a.columns, (row + 1) * a.columns);

/** f(number, row, column) of each number. */
function map(a, f) {
  const b = matrix(a.rows, a.columns);
  for (let row = 0, i = 0; row < a.rows; row++)
    for (let column = 0; column < a.columns; column++, i++) b.data[i] = f(a.data[i], row, column);
  return b;
}
const add = (a, b) => map(a, (x, row, column) => x + b.data[row * b.columns + column]);

/** A below B. */
function below(a, b) {
  const c = matrix(a.rows + b.rows, a.columns);
  c.data.set(a.data);
  c.data.set(b.data, a.data.length);
  return c;
}

/** A B: [T, S] times [S, n]. */
function times(a, b) {
  const c = matrix(a.rows, b.columns);
  for (let i = 0; i < a.rows; i++)
    for (let k = 0; k < a.columns; k++) {
      const x = a.data[i * a.columns + k], to = i * b.columns, from = k * b.columns;
      for (let j = 0; j < b.columns; j++) c.data[to + j] += x * b.data[from + j];
    }
  return c;
}

/** A B^T: each row of A times each row of B; four sums at a time take half of the time of one. */
function timesTransposed(a, b) {
  const c = matrix(a.rows, b.rows), n = a.columns, [x, y] = [a.data, b.data];
  for (let i = 0; i < a.rows; i++)
    for (let j = 0; j < b.rows; j++) {
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let p = i * n, q = j * n, end = p + n; p < end; p += 4, q += 4) {
        s0 += x[p] * y[q];
        s1 += x[p + 1] * y[q + 1];
        s2 += x[p + 2] * y[q + 2];
        s3 += x[p + 3] * y[q + 3];
      }
      c.data[i * b.rows + j] = s0 + s1 + s2 + s3;
    }
  return c;
}

// ---- The Transformer --------------------------------------------------------------------------

/** x W + b. */
function linear(x, name) {
  const b = W[`${name}/bias`].data;
  return map(timesTransposed(x, W[`${name}/kernel`]), (y, _, column) => y + b[column]);
}

/** Each row minus its mean, divided by its standard deviation, times gamma, plus beta. */
function layerNorm(x, name) {
  const gamma = W[`${name}/gamma`].data, beta = W[`${name}/beta`].data, n = x.columns;
  const moments = Array.from({ length: x.rows }, (_, i) => {
    const row = rowOf(x, i), mean = row.reduce((sum, y) => sum + y, 0) / n;
    const variance = row.reduce((sum, y) => sum + (y - mean) ** 2, 0) / n;
    return [mean, Math.sqrt(variance + 1e-6)];
  });
  return map(x, (y, row, j) => gamma[j] * (y - moments[row][0]) / moments[row][1] + beta[j]);
}

/** Each row as probabilities: exp(x) divided by their sum. */
function softmax(x) {
  const largest = Array.from({ length: x.rows }, (_, i) => rowOf(x, i).reduce((a, b) => Math.max(a, b)));
  const e = map(x, (y, row) => Math.exp(y - largest[row]));
  const sums = Array.from({ length: x.rows }, (_, i) => rowOf(e, i).reduce((a, b) => a + b, 0));
  return map(e, (y, row) => y / sums[row]);
}

/** Rows of the embedding table, times sqrt(d_model). */
function embed(ids) {
  const table = W["embedding/table"], root = Math.sqrt(CONFIG.d_model);
  return map(matrix(ids.length, CONFIG.d_model),
    (_, row, column) => table.data[ids[row] * CONFIG.d_model + column] * root);
}

/** PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same). */
function positionalEncoding(first, length) {
  return map(matrix(length, CONFIG.d_model), (_, row, column) => {
    const angle = (first + row) / 10000 ** ((column - column % 2) / CONFIG.d_model);
    return column % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** [T, h d_k] -> h matrices [T, d_k], and back. */
const splitHeads = (x) => Array.from({ length: CONFIG.num_heads }, (_, h) =>
  map(matrix(x.rows, DEPTH), (_, row, column) => x.data[row * x.columns + h * DEPTH + column]));
const concat = (heads) => map(matrix(heads[0].rows, CONFIG.d_model),
  (_, row, column) => heads[Math.floor(column / DEPTH)].data[row * DEPTH + column % DEPTH]);

/** Keys and values of each head. */
const keysValues = (x, name) =>
  ({ k: splitHeads(linear(x, `${name}/wk`)), v: splitHeads(linear(x, `${name}/wv`)) });

/** Sets the weights that the reader has chosen; the others of their row share the rest. */
function edited(weights, edits, first) {
  const result = map(weights, (w) => w);
  for (let i = 0; i < weights.rows; i++) {
    const row = rowOf(result, i), chosen = edits.filter((e) => e.row === first + i && e.key < row.length);
    if (!chosen.length) continue;
    chosen.forEach((e) => { row[e.key] = 0; });
    const rest = row.reduce((a, b) => a + b, 0), given = chosen.reduce((a, e) => a + e.weight, 0);
    const scale = rest && given < 1 ? (1 - given) / rest : 0;
    row.forEach((w, key) => { row[key] = w * scale; });
    chosen.forEach((e) => { row[e.key] = e.weight / (scale ? 1 : given || 1); });
  }
  return result;
}

/**
 * Multi-head attention from the rows of x, at the positions from `first` on, to keys and values.
 * hidden(position, key) says what a position must not see.
 */
function attention(x, { k, v }, name, hidden, on, first = 0) {
  const q = splitHeads(linear(x, `${name}/wq`));            // h x [T, d_k]
  const scores = q.map((q_h, h) => timesTransposed(q_h, k[h]));                   // h x [T, S]
  const scaled = scores.map((s) => on.scale ? map(s, (y) => y / Math.sqrt(DEPTH)) : s);
  const masked = scaled.map((s) => map(s, (y, row, key) => hidden(first + row, key) ? y - 1e9 : y));
  const weights = masked.map((s, h) =>
    edited(softmax(s), on.edits.filter((e) => e.name === name && e.head === h), first));
  const z = weights.map((w, h) => {
    const out = times(w, v[h]);                                                   // [T, d_v]
    return on.heads[name][h] ? out : map(out, () => 0);
  });
  const output = linear(concat(z), `${name}/dense`);        // [T, d_model]
  return { q, k, v, scores, scaled, masked, weights, z, output };
}

// `on` says what is switched on. Each part records its steps, which the page shows.
const nothing = () => {};

function embedding(ids, first, side, on, record) {
  const embedded = embed(ids), positions = positionalEncoding(first, ids.length);
  const x = on.positions ? add(embedded, positions) : embedded;
  record("ids", side, side, { ids });
  record("embedding", side, `${side}/embedding`, { tensors: [["X", embedded]] });
  record("positions", side, `${side}/positions`, { tensors: [["PE", positions], ["X + PE", x]] });
  return x;
}

function norm(x, name, side, record) {
  const normed = layerNorm(x, name);
  record("norm", side, name, { tensors: [["x", x], ["LayerNorm", normed]] });
  return normed;
}

function recordAttention(a, name, side, keySide, record) {
  for (const kind of ["project", "scores", "scaled", "masked", "weights", "heads"])
    record(kind, side, name, { a, keySide });
  record("output", side, name, { tensors: [["Concat", concat(a.z)], ["MultiHead", a.output]] });
}

/** The residual connection. `name` is that of the sub-layer. */
function residual(x, y, name, side, on, record) {
  const sum = on.residual ? add(x, y) : y;
  record("add", side, `${name}/add`, { tensors: [["x", x], ["SubLayer", y], ["x + SubLayer", sum]] });
  return sum;
}

function feedForward(x, name, side, record) {
  const inner = map(linear(x, `${name}/inner`), (y) => Math.max(0, y));           // [T, d_ff]
  record("inner", side, name, { tensors: [["inner", inner]] });
  const outer = linear(inner, `${name}/outer`);                                   // [T, d_model]
  record("outer", side, name, { tensors: [["FFN(x)", outer]] });
  return outer;
}

const hidesPadding = (inp, on) => (_, key) => on.padding && inp[key] === PAD;

function encoder(inp, on, record = nothing) {
  const side = "encoder";
  let x = embedding(inp, 0, side, on, record);
  for (let i = 1; i <= CONFIG.num_encoder_layers; i++) {
    const name = `encoder/layer${i}`, mha = `${name}/mha`, ffn = `${name}/ffn`;
    const n = norm(x, `${name}/layernorm1`, side, record);
    const a = attention(n, keysValues(n, mha), mha, hidesPadding(inp, on), on);
    recordAttention(a, mha, side, side, record);
    x = residual(x, a.output, mha, side, on, record);
    const y = feedForward(norm(x, `${name}/layernorm2`, side, record), ffn, side, record);
    x = residual(x, y, ffn, side, on, record);
  }
  return norm(x, "encoder/layernorm", side, record);                                // [S, d_model]
}

/** What the decoder needs of a source: its ids, and the keys and values of each layer. */
function memoryOf(inp, on, record) {
  const encOutput = encoder(inp, on, record);
  return { inp, layers: Array.from({ length: CONFIG.num_decoder_layers }, (_, i) =>
    keysValues(encOutput, `decoder/layer${i + 1}/mha2`)) };
}

/**
 * Computes the rows of ids; the cache has the keys and values of the rows before them.
 * Returns the rows [T, d_model], and the cache with their keys and values.
 */
function decoder(ids, memory, cache, on, record = nothing) {
  const side = "decoder", first = cache.length ? cache[0].k[0].rows : 0, longer = [];
  const isLater = (position, key) => on.lookAhead && key > position;
  let x = embedding(ids, first, side, on, record);
  for (let i = 1; i <= CONFIG.num_decoder_layers; i++) {
    const name = `decoder/layer${i}`, [mha1, mha2] = [`${name}/mha1`, `${name}/mha2`], ffn = `${name}/ffn`;
    let n = norm(x, `${name}/layernorm1`, side, record), own = keysValues(n, mha1);
    if (first) {
      const old = cache[i - 1], joined = (m) => own[m].map((heads, h) => below(old[m][h], heads));
      own = { k: joined("k"), v: joined("v") };
    }
    longer.push(own);
    const a = attention(n, own, mha1, isLater, on, first);
    recordAttention(a, mha1, side, side, record);
    x = residual(x, a.output, mha1, side, on, record);
    n = norm(x, `${name}/layernorm2`, side, record);
    const b = attention(n, memory.layers[i - 1], mha2, hidesPadding(memory.inp, on), on, first);
    recordAttention(b, mha2, side, "encoder", record);
    x = residual(x, b.output, mha2, side, on, record);
    const y = feedForward(norm(x, `${name}/layernorm3`, side, record), ffn, side, record);
    x = residual(x, y, ffn, side, on, record);
  }
  return { x: norm(x, "decoder/layernorm", side, record), cache: longer };
}

/** Logits and probabilities [T, V], and the steps on the way. */
function transformer(inp, tar, on) {
  const steps = [];
  const record = (kind, side, name, values = {}) =>
    steps.push({ kind, side, name, layer: Number(name.match(/layer(\d+)/)?.[1]), ...values });
  const { x } = decoder(tar, memoryOf(inp, on, record), [], on, record);
  const logits = timesTransposed(x, W["embedding/table"]), probabilities = softmax(logits);   // X E^T
  record("logits", "decoder", "decoder/logits", { logits });
  record("probabilities", "decoder", "decoder/probabilities", { probabilities });
  record("next", "decoder", "decoder/next");
  return { steps, logits, probabilities };
}

// ---- The search -------------------------------------------------------------------------------

/** The logarithms of softmax(x E^T) of the last row. */
function nextLogProbs(x) {
  const logits = timesTransposed(matrix(1, x.columns, rowOf(x, x.rows - 1)), W["embedding/table"]).data;
  const largest = logits.reduce((a, b) => Math.max(a, b));
  const sum = Math.log(logits.reduce((all, y) => all + Math.exp(y - largest), 0)) + largest;
  return logits.map((y) => y - sum);
}

/** The indices of the n largest numbers, the largest first. */
function largestOf(numbers, n) {
  const best = [];
  numbers.forEach((x, i) => {
    if (best.length === n && x <= numbers[best[n - 1]]) return;
    let place = best.length;
    while (place && numbers[best[place - 1]] < x) place--;
    best.splice(place, 0, i);
    if (best.length > n) best.pop();
  });
  return best;
}

/** ((5 + length) / 6)^alpha (Wu et al. 2016). */
const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/**
 * Beam search (Sec. 6.1): keeps the most probable beginnings. A beam of 1 is greedy search.
 *
 * Options: beam, alpha (of the length penalty), longest (output with [END]), prefix (ids with which
 * the output begins), next (awaited after each step; the search is given up when it is false).
 * Returns the hypotheses that have ended, best first, and those that were alive after each step.
 */
async function search(inp, on, { beam, alpha, longest, prefix = [], next = () => true }) {
  const memory = memoryOf(inp, on);
  let alive = [{ ids: [START], logProb: 0, cache: [] }], ended = [];
  const steps = [];
  for (let length = 1; length <= longest; length++) {
    if (!await next()) return null;
    const forced = length === longest ? END : prefix[length - 1];
    const extended = alive.flatMap((hypothesis) => {
      // Without the look-ahead mask, a new sub-word changes all rows: nothing can be kept.
      const [ids, kept] = on.lookAhead ? [hypothesis.ids.slice(-1), hypothesis.cache] : [hypothesis.ids, []];
      const { x, cache } = decoder(ids, memory, kept, on), logProbs = nextLogProbs(x);
      const given = logProbs[forced];
      if (forced !== undefined) logProbs.fill(-Infinity)[forced] = given;
      logProbs[PAD] = logProbs[START] = -Infinity;
      return largestOf(logProbs, 2 * beam).filter((id) => logProbs[id] > -Infinity).map((id) =>
        ({ ids: [...hypothesis.ids, id], logProb: hypothesis.logProb + logProbs[id], cache }));
    });
    const best = largestOf(extended.map((h) => h.logProb), 2 * beam).map((i) => extended[i]);
    const ends = ({ ids }) => ids[length] === END;
    const score = ({ ids, logProb }) =>
      ({ ids: ids.slice(1), logProb, score: logProb / lengthPenalty(length, alpha) });
    ended.push(...best.slice(0, beam).filter(ends).map(score));
    ended = ended.sort((a, b) => b.score - a.score).slice(0, beam);
    alive = best.filter((h) => !ends(h)).slice(0, beam);
    steps.push(alive.map(({ ids, logProb }) => ({ ids: ids.slice(1), logProb })));
    // Log-probabilities only fall, and the longest output has the largest penalty.
    const bestToCome = alive.length ? alive[0].logProb / lengthPenalty(longest, alpha) : -Infinity;
    if (ended.length && (beam === 1 || bestToCome <= ended[0].score)) break;
  }
  return { ended, steps };
}

/** The ids of a source as the model reads them: with the padding of a batch. */
const padded = (ids) => [...ids, ...Array(PADDING).fill(PAD)];
const longestOutput = (inp) =>
  Math.min(inp.length - PADDING - 1 + DECODE.extra_decode_length, CONFIG.pe_target);

/** The attention blocks, such as "decoder/layer1/mha2". */
const BLOCKS = [["encoder", "mha"], ["decoder", "mha1"], ["decoder", "mha2"]].flatMap(([stack, block]) =>
  Array.from({ length: CONFIG[`num_${stack}_layers`] }, (_, i) => `${stack}/layer${i + 1}/${block}`));

/** The whole model: nothing is switched off. */
const everything = () => ({
  scale: true, lookAhead: true, padding: true, residual: true, positions: true, edits: [],
  heads: Object.fromEntries(BLOCKS.map((name) => [name, Array(CONFIG.num_heads).fill(true)])),
});

/** Translates as `tf-transformer translate` does. */
async function translate(text) {
  const inp = padded(SOURCE.encode(text));
  const { beam_size: beam, length_penalty: alpha } = DECODE;
  const { ended } = await search(inp, everything(), { beam, alpha, longest: longestOutput(inp) });
  return TARGET.decode(ended[0].ids);
}

async function loadModel() {
  const arrays = await unpack(document.getElementById("weights").textContent);
  setWeights(arrays);
  [SOURCE, TARGET] = ["source", "target"].map((side) =>
    new Tokenizer(DATA.vocabulary, arrays.scores, arrays[`${side}_charsmap`]));
}
