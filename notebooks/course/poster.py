"""Draws the poster of the course: one translation, number by number, on two pages.

`make poster` writes `notebooks/poster.pdf`, `poster_1.png` and `poster_2.png`. All numbers are
those of the built-in model for `course.SENTENCE`.
"""

# first: it starts TensorFlow silently
from course import ROOT, SENTENCE, TRANSLATION, architecture_diagram, plots

import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from tf_transformer import SearchProblem, Translator, beam_search, create_masks
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.special_tokens import START

A3 = (16.5, 11.7)  # inches, landscape
DPI = 110  # of the PNG files
COLUMNS = 12  # of the 128 of a vector that are drawn
HEAD = 0  # of encoder layer 1, drawn on page 1
BEAM_SIZE = 3
BEAM_STEPS = 7  # drawn on page 2


class Numbers(NamedTuple):
    """What the model computes for the sentence. Shapes: S source, T target, D d_model."""

    source: list[str]  # S sub-words
    target: list[str]  # T sub-words, with [END]
    inp: np.ndarray  # (S) ids
    tar_real: np.ndarray  # (T) ids
    embedded: np.ndarray  # (S, D), times sqrt(d_model)
    positions: np.ndarray  # (S, D)
    x: np.ndarray  # (S, D)
    q: np.ndarray  # (S, K), of one head
    k: np.ndarray  # (S, K)
    v: np.ndarray  # (S, K)
    scores: np.ndarray  # (S, S), divided by sqrt(d_k)
    weights: np.ndarray  # (S, S)
    z: np.ndarray  # (S, K)
    attention_output: np.ndarray  # (S, D), after W^O
    enc_output: np.ndarray  # (S, D)
    masked: np.ndarray  # (T, T), self-attention of the decoder
    cross: np.ndarray  # (T, S), encoder-decoder attention
    probabilities: np.ndarray  # (T, V)
    vocabulary: list[str]  # V sub-words


def compute(translator):
    """Computes the numbers of the poster.

    Args:
      translator: of the built-in model.
    Returns: `Numbers`.
    """
    model = translator.model
    encoder = model.encoder
    inp = translator.source.encode([SENTENCE]).to_tensor()  # (1, S)
    tar_real = translator.target.encode([TRANSLATION]).to_tensor()  # (1, T)
    tar_inp = tf.concat([[[START]], tar_real[:, :-1]], axis=1)  # (1, T): shifted right
    enc_padding_mask, look_ahead_mask, dec_padding_mask = create_masks(inp, tar_inp)

    embedded = encoder.embedding(inp)  # (1, S, D)
    x = encoder.pos_encoding(embedded)  # (1, S, D)
    mha = encoder.enc_layers[0].mha
    q = mha.split_heads(mha.wq(x), mha.depth)[0, HEAD]  # (S, K)
    k = mha.split_heads(mha.wk(x), mha.depth)[0, HEAD]  # (S, K)
    v = mha.split_heads(mha.wv(x), mha.value_depth)[0, HEAD]  # (S, K)
    scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(mha.depth)  # (S, S)
    attention_output, weights = mha(x, x, x, enc_padding_mask)
    enc_output = encoder(inp, False, enc_padding_mask)  # (1, S, D)
    logits, attention_weights = model(
        inp, tar_inp, False, enc_padding_mask, look_ahead_mask, dec_padding_mask
    )
    return Numbers(
        source=translator.source.pieces(inp[0]),
        target=translator.target.pieces(tar_real[0]),
        inp=inp[0].numpy(),
        tar_real=tar_real[0].numpy(),
        embedded=embedded[0].numpy(),
        positions=(x - embedded)[0].numpy(),
        x=x[0].numpy(),
        q=q.numpy(),
        k=k.numpy(),
        v=v.numpy(),
        scores=scores.numpy(),
        weights=weights[0, HEAD].numpy(),
        z=tf.matmul(weights[0, HEAD], v).numpy(),
        attention_output=attention_output[0].numpy(),
        enc_output=enc_output[0].numpy(),
        masked=attention_weights["decoder_layer1_block1"][0, 0].numpy(),
        cross=attention_weights["decoder_layer2_block2"][0, 0].numpy(),
        probabilities=tf.nn.softmax(logits[0]).numpy(),
        vocabulary=translator.target.pieces(range(translator.target.vocab_size)),
    )


class RecordedStep:
    """A step function that keeps the hypotheses of each step, as `plots.draw_beam` takes them."""

    def __init__(self, step):
        self.steps = []  # (alive, none that ended); the hypotheses as (ids, log-probability)
        self._step = step
        self._alive = None  # K hypotheses
        self._next_log_probs = None  # (K, V): of their next sub-words

    def __call__(self, ids, position, beam_indices, state):
        """Calls the step function. Shapes: ids and beam_indices [1, K]."""
        if self._next_log_probs is None:  # one hypothesis: [START]
            self._alive = [((START,), 0.0)] * ids.shape[1]
        else:
            self._alive = [
                (
                    (*self._alive[parent][0], int(word)),
                    self._alive[parent][1] + self._next_log_probs[parent, word],
                )
                for parent, word in zip(beam_indices[0].numpy(), ids[0].numpy())
            ]
            self.steps.append((self._alive, []))
        logits, state = self._step(ids, position, beam_indices, state)  # (1, K, V)
        self._next_log_probs = tf.nn.log_softmax(logits[0]).numpy()
        return logits, state


def search(translator):
    """Searches with a beam and records it.

    Args:
      translator: of the built-in model.
    Returns: the first steps of the search, as `plots.draw_beam` takes them; the ids of the
      returned hypothesis, with the start token.
    """
    inp = translator.source.encode([SENTENCE]).to_tensor()  # (1, S)
    step, state = make_decode_step(translator.model, inp, beam_size=BEAM_SIZE)
    recorded = RecordedStep(step)
    problem = SearchProblem(recorded, state, max_lengths=tf.constant([inp.shape[1] + 50]))
    result = beam_search(problem, beam_size=BEAM_SIZE)
    return recorded.steps[:BEAM_STEPS], (START, *result.ids[0, 0].numpy())


def heading(panel, number, text):
    """Writes the number of a step and its text above a panel."""
    panel.set_title(f"{number}  {text}", loc="left", fontsize=11, fontweight="bold")


def draw_vectors(panel, number, text, values, rows, scale=None):
    """Draws the first columns of the vectors of a sentence."""
    values = values[:, :COLUMNS]
    plots.draw_matrix(panel, values, rows, None, high=scale, low=scale and -scale, numbers=False)
    panel.set_aspect("auto")
    heading(panel, number, text)


def draw_queries_and_keys(panel, number, text, values, queries, keys, low=None, high=None):
    """Draws scores or weights: a row for each query, a column for each key."""
    plots.draw_matrix(panel, values, queries, keys, low, high, numbers=False)
    panel.set_aspect("auto")
    ticks = panel.get_xticks()
    panel.set_xticks(ticks, plots.labels(keys), rotation=90, ha="center", rotation_mode="default")
    heading(panel, number, text)


def draw_weights(panel, number, text, weights, queries, keys):
    """Draws attention weights, with numbers from 0.1 on."""
    draw_queries_and_keys(panel, number, text, weights, queries, keys, 0.0, 1.0)
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.1:
            color = "white" if weight < 0.6 else "black"
            written = f"{weight:.1f}"
            panel.text(
                column,
                row,
                written,
                ha="center",
                va="center",
                fontsize=7,
                color=color,
            )


def draw_ids(panel, number, text, pieces, ids):
    """Draws sub-words and their ids as two rows of boxes."""
    panel.set_axis_off()
    panel.set(xlim=(-0.5, len(ids) - 0.5), ylim=(0, 2))
    box = {"boxstyle": "round", "facecolor": "#DDE0F1", "edgecolor": "0.4"}
    for column, (piece, number_) in enumerate(zip(plots.labels(pieces), ids)):
        panel.text(column, 1.4, piece, ha="center", va="center", fontsize=9, bbox=box)
        panel.text(column, 0.5, str(number_), ha="center", va="center", fontsize=9)
    heading(panel, number, text)


def figure_1(numbers):
    """Figure 1 of the paper with the shapes of this sentence, as an image."""
    size = (1, len(numbers.source), numbers.x.shape[1])
    target_size = (1, len(numbers.target), numbers.x.shape[1])
    shapes = {}
    for key in architecture_diagram.BOX_OF:
        shapes[key] = target_size if key.startswith("dec_") else size
    shapes["inp"] = size[:2]
    shapes["tar"] = target_size[:2]
    shapes["logits"] = shapes["probabilities"] = (
        *target_size[:2],
        numbers.probabilities.shape[1],
    )
    figure = architecture_diagram.plot_transformer(shapes, 2)
    figure.set_dpi(220)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def page(text):
    """An empty page with a title and margins."""
    figure = Figure(figsize=A3, layout="constrained")
    figure.get_layout_engine().set(rect=(0.02, 0.02, 0.96, 0.92))  # below the title
    figure.suptitle(f"Attention Is All You Need, number by number {text}", fontsize=17, y=0.97)
    return figure


def page_1(numbers):
    """The encoder: from the sentence to the output of the encoder."""
    figure = page(f'(1/2): the encoder reads "{SENTENCE}"')
    left, right = figure.subfigures(1, 2, width_ratios=[1, 2.1])
    panel = left.subplots()
    panel.imshow(figure_1(numbers), interpolation="lanczos")
    panel.set_axis_off()
    panel.set_title("Figure 1, with the shapes of this sentence", fontsize=11)

    top, rest = right.subfigures(2, 1, height_ratios=[0.09, 1])
    draw_ids(top.subplots(), 1, "sub-words and their ids", numbers.source, numbers.inp)
    panels = rest.subplots(3, 4).flat
    words = numbers.source
    rows = iter([words, None, None, None] * 3)  # names in the first panel of a row
    largest = float(np.abs(numbers.x[:, :COLUMNS]).max())
    vectors = [
        ("embedding × √128", numbers.embedded, largest),
        ("positional encoding", numbers.positions, largest),
        ("x = 2 + 3", numbers.x, largest),
        (r"$Q = xW^Q + b^Q$", numbers.q, None),
        (r"$K = xW^K + b^K$", numbers.k, None),
        (r"$V = xW^V + b^V$", numbers.v, None),
    ]
    for number, (text, values, scale) in enumerate(vectors, start=2):
        draw_vectors(next(panels), number, text, values, next(rows), scale)
    text = r"scores $QK^T/\sqrt{32}$"
    draw_queries_and_keys(next(panels), 8, text, numbers.scores, next(rows), words)
    draw_weights(next(panels), 9, "weights: softmax of 8", numbers.weights, next(rows), words)
    draw_vectors(next(panels), 10, "Z = weights · V", numbers.z, next(rows))
    text = "[4 heads] $W^O + b^O$"
    draw_vectors(next(panels), 11, text, numbers.attention_output, next(rows))
    draw_vectors(next(panels), 12, "encoder output", numbers.enc_output, next(rows))
    panel = next(panels)
    panel.set_axis_off()
    note = (
        "5 to 11: encoder layer 1; 5 to 10: head 1.\n"
        f"Of vectors, the first {COLUMNS} columns.\n"
        "Between 11 and 12: Add & Norm,\n"
        "FFN(x) = max(0, x W₁ + b₁) W₂ + b₂,\n"
        "Add & Norm, and encoder layer 2.\n\n"
        "Orange is negative, purple positive;\n"
        "2, 3 and 4 have one color scale.\n\n"
        "Row of 8 and 9: query; column: key.\n"
        "Weights from 0.1 on are written."
    )
    panel.text(0, 0.95, note, va="top", fontsize=10, linespacing=1.4)
    return figure


def page_2(numbers, searched):
    """The decoder: from the shifted target to probabilities, the loss and the beam."""
    steps, winner = searched
    figure = page(f'(2/2): the decoder writes "{TRANSLATION}"')
    top, middle, bottom = figure.subfigures(3, 1, height_ratios=[0.14, 1, 0.75])
    left, right = top.subfigures(1, 2)
    tar_inp = ["[START]", *numbers.target[:-1]]
    ids = [START, *numbers.tar_real[:-1]]
    draw_ids(left.subplots(), 13, "decoder input: the target, shifted right", tar_inp, ids)
    draw_ids(right.subplots(), 14, "what it must predict", numbers.target, numbers.tar_real)

    panels = middle.subplots(1, 3, width_ratios=[1, 1, 1.2])
    text = "masked self-attention (layer 1, head 1);\n      row: the sub-word that is read"
    draw_weights(panels[0], 15, text, numbers.masked, tar_inp, tar_inp)
    text = "attention to the source (layer 2, head 1);\n      row: the sub-word to predict"
    draw_weights(panels[1], 16, text, numbers.cross, numbers.target, numbers.source)
    draw_predictions(panels[2], numbers)

    left, right = bottom.subfigures(1, 2, width_ratios=[1, 1.6])
    draw_loss(left.subplots(), numbers)
    panel = right.subplots()
    plots.draw_beam(panel, steps, numbers.vocabulary, winner)
    text = f"beam search, K = {BEAM_SIZE}: the first {len(steps)} steps, with log-probabilities"
    heading(panel, 19, text)
    pieces = plots.labels(numbers.vocabulary[word] for word in winner[1:])
    panel.set_xlabel(f"step; the result: {' '.join(pieces)}")
    return figure


def draw_predictions(panel, numbers, count=4):
    """Draws the most probable sub-words at each position as a table."""
    panel.set_axis_off()
    panel.set(xlim=(0, count), ylim=(len(numbers.target) - 0.5, -0.5))
    best = np.argsort(-numbers.probabilities, axis=1)[:, :count]  # (T, count)
    pieces = plots.labels(numbers.vocabulary)
    for row, columns in enumerate(best):
        for column, word in enumerate(columns):
            p = numbers.probabilities[row, word]
            weight = "bold" if word == numbers.tar_real[row] else "normal"
            text = f"{pieces[word]} {p:.3f}"
            panel.text(column, row, text, va="center", fontsize=9, fontweight=weight)
    text = "softmax(logits): the most probable sub-words\n      (bold: the sub-word to predict)"
    heading(panel, 17, text)


def draw_loss(panel, numbers):
    """Draws -ln p of each sub-word of the reference."""
    rows = np.arange(len(numbers.target))
    losses = -np.log(numbers.probabilities[rows, numbers.tar_real])  # (T), nats
    panel.bar(rows, losses, color=plots.COLORS[0])
    panel.set_xticks(rows, plots.labels(numbers.target), rotation=60, ha="right")
    panel.set_ylabel("-ln p, nats")
    panel.axhline(losses.mean(), color="0.3", linestyle="--", label=f"mean {losses.mean():.3f}")
    panel.legend()
    heading(panel, 18, "loss of each sub-word (cross-entropy)")


def main():
    """Writes the poster."""
    translator = Translator.load("pocket-en-de")
    numbers = compute(translator)
    pages = [page_1(numbers), page_2(numbers, search(translator))]
    folder = pathlib.Path(ROOT) / "notebooks"
    with PdfPages(folder / "poster.pdf", metadata={"CreationDate": None}) as pdf:
        for page in pages:
            pdf.savefig(page)
    for number, page in enumerate(pages, start=1):
        page.savefig(folder / f"poster_{number}.png", dpi=DPI, metadata={"Software": None})


if __name__ == "__main__":
    main()
