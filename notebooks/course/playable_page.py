"""Writes the paper as one playable page, `notebooks/transformer.html`.

`make page` runs it. The page holds the weights of the built-in model and computes the Transformer
itself, so that the reader can switch parts of it off. What it does not compute is here: the beam
search of the six sentences, and the gradients of one update.
"""

# first: it starts TensorFlow silently
from course import ROOT, SENTENCE, TRANSLATION, architecture_diagram

import base64
import gzip
import json
import re
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer import SearchProblem, Translator, beam_search, label_smoothed_cross_entropy
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.special_tokens import END, START

MODEL = "pocket-en-de"
PAGE = ROOT / "notebooks" / "transformer.html"
TEMPLATE = ROOT / "notebooks" / "course" / "playable_page.html"
SENTENCES = [  # with the translation that the corpus has
    (SENTENCE, TRANSLATION),
    ("The teacher gets up at half past six.", "Der Lehrer steht um halb sieben auf."),
    ("She believes that she is not at home.", "Sie glaubt, dass sie nicht zu Hause ist."),
    ("The children do not see the dog.", "Die Kinder sehen den Hund nicht."),
    (
        "Anna knows the man who gave the child a red ball.",
        "Anna kennt den Mann, der dem Kind einen roten Ball gegeben hat.",
    ),
    (
        "Seven months ago we drew six white beds.",
        "Vor sieben Monaten haben wir sechs weiße Betten gezeichnet.",
    ),
]
LEARNING_RATE = 0.1  # of the one update, without Adam: w - 0.1 * gradient
DIGITS = 4  # of the numbers that the page does not compute


def pack(weights):
    """Packs float16 arrays as text.

    The high bytes of all numbers come first: alike, they compress to two thirds.

    Args:
      weights: a dict from name to float32 array, whose values float16 can hold.
    Returns: base64 of gzip.
    Raises: ValueError for a value that float16 changes.
    """
    values = np.concatenate([array.ravel() for array in weights.values()])
    halves = values.astype("<f2")
    if not np.array_equal(halves.astype(np.float32), values):
        raise ValueError(f"{MODEL} has weights that are not float16")
    planes = halves.view(np.uint8).reshape(-1, 2)[:, ::-1].T  # (2, N): high bytes, low bytes
    return base64.b64encode(gzip.compress(planes.tobytes(), mtime=0)).decode()


def unpack(text):
    """Returns the bytes of `pack` before the compression."""
    return gzip.decompress(base64.b64decode(text))


def weights_of(model):
    """Returns a dict from the name of each weight, such as `encoder/layer1/ffn/inner/bias`."""
    return {weight.path.split("/", 1)[1]: weight.numpy() for weight in model.weights}


class RecordedStep:
    """A step function that keeps the hypotheses that are alive after each step of the search."""

    def __init__(self, step):
        self.alive = []  # of each step: K hypotheses, as (ids, log-probability)
        self._step = step
        self._log_probs = None  # (K, V): of the next sub-words

    def __call__(self, ids, position, beam_indices, state):
        """Calls the step function. Shapes: ids and beam_indices [1, K]."""
        if self._log_probs is None:
            self.alive.append([((START,), 0.0)] * ids.shape[1])
        else:
            hypotheses = []
            for row, word in zip(beam_indices[0].numpy(), ids[0].numpy()):
                path, log_prob = self.alive[-1][row]
                hypotheses.append(((*path, int(word)), log_prob + self._log_probs[row, word]))
            self.alive.append(hypotheses)
        logits, state = self._step(ids, position, beam_indices, state)  # (1, K, V)
        self._log_probs = tf.nn.log_softmax(logits[0]).numpy()
        return logits, state


def beam(translator, inp):
    """Searches with the model's beam and records the tree.

    Args:
      translator: of the built-in model.
      inp: ids `[1, S]`.
    Returns: a dict with the nodes of each step, best first, as [ids of the path, log-probability],
      and the hypotheses that have ended, best first, as [ids, log-probability, score].
    """
    decode = translator.decode
    step, state = make_decode_step(translator.model, inp, beam_size=decode.beam_size)
    recorded = RecordedStep(step)
    longest = tf.constant([inp.shape[1] + decode.extra_decode_length])
    problem = SearchProblem(recorded, state, longest, decode.length_penalty)
    result = beam_search(problem, decode.beam_size, n_best=decode.beam_size)
    ended = []
    for ids, score in zip(result.ids[0].numpy(), result.scores[0].numpy()):
        length = int(np.argmax(ids == END)) + 1
        penalty = ((5 + length) / 6) ** decode.length_penalty
        ended.append([ids[:length].tolist(), rounded(score * penalty), rounded(score)])
    last = max(len(ids) for ids, _, _ in ended)
    steps = [
        [[list(ids[1:]), rounded(log_prob)] for ids, log_prob in alive if log_prob > -1e6]
        for alive in recorded.alive[1:last]
    ]
    return {"steps": steps, "ended": ended}


def update(model, inp, tar):
    """Computes the gradients of the loss, and what one step of gradient descent changes.

    Args:
      model: the built-in model; its weights are the same afterwards.
      inp: ids `[1, S]`.
      tar: ids of the reference `[1, T]`.
    Returns: a dict with the norm of the gradient of each weight; and from before and after the
      update, the loss in nats per sub-word and the probability of each sub-word of the reference.
    """
    tar_inp = tf.concat([[[START]], tar[:, :-1]], axis=1)  # (1, T): shifted right

    def loss_and_probabilities():
        logits, _ = model(inp, tar_inp)
        total, count = label_smoothed_cross_entropy(tar, logits)
        return total / count, tf.gather(tf.nn.softmax(logits), tar, batch_dims=2)[0]  # (T)

    weights = [tf.identity(weight) for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        before, p_before = loss_and_probabilities()
    gradients = tape.gradient(before, model.trainable_variables)
    for variable, gradient in zip(model.trainable_variables, gradients):
        variable.assign_sub(LEARNING_RATE * gradient)
    after, p_after = loss_and_probabilities()
    for variable, weight in zip(model.trainable_variables, weights):
        variable.assign(weight)
    names = weights_of(model)
    return {
        "norms": {name: rounded(tf.norm(g)) for name, g in zip(names, gradients)},
        "loss": [rounded(before), rounded(after)],
        "probabilities": [[rounded(p) for p in row.numpy()] for row in (p_before, p_after)],
    }


def rounded(number):
    """Returns a float with the digits of the page."""
    return round(float(number), DIGITS)


def compute(translator, pairs=SENTENCES):
    """Computes the data of the page: all but the weights.

    Args:
      translator: of the built-in model.
      pairs: sentences and their references.
    Returns: a dict for JSON.
    """
    sentences = []
    for source, reference in pairs:
        inp = translator.source.encode([source]).to_tensor()  # (1, S)
        tar = translator.target.encode([reference]).to_tensor()  # (1, T)
        sentences.append(
            {
                "source": source,
                "reference": reference,
                "inp": inp[0].numpy().tolist(),
                "tar": tar[0].numpy().tolist(),
                "beam": beam(translator, inp),
                "update": update(translator.model, inp, tar),
            }
        )
    model = translator.model
    return {
        "model": MODEL,
        "num_layers": model.num_layers,
        "num_heads": model.num_heads,
        "d_model": model.d_model,
        "dff": model.dff,
        "learning_rate": LEARNING_RATE,
        "vocabulary": translator.target.pieces(range(translator.target.vocab_size)),
        "shapes": {name: array.shape for name, array in weights_of(model).items()},
        "sentences": sentences,
        "boxes": [[*box, box.half_height] for box in architecture_diagram.BOXES],
        "sub_layers": architecture_diagram.SUB_LAYERS,
        "stacks": architecture_diagram.STACKS,
    }


def render(data: dict[str, Any], weights: str) -> str:
    """Returns the page with these data and packed weights."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # no text can close the script element
    page = TEMPLATE.read_text("utf-8")
    return page.replace("DATA_AS_JSON", text).replace("WEIGHTS_AS_BASE64", weights)


def read(page: str) -> tuple[dict[str, Any], str]:
    """Returns the data and the packed weights of a page."""
    data, weights = re.findall(r'<script type="[a-z/]+" id="(?:data|weights)">(.*?)</script>', page)
    return json.loads(data), weights


def main():
    """Writes the page."""
    translator = Translator.load(MODEL)
    page = render(compute(translator), pack(weights_of(translator.model)))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
