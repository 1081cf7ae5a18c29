"""The exercises of notebook D."""

from course import Exercise

import numpy as np

RANDOM = np.random.default_rng(8)


def _weights(*shape):
    return RANDOM.dirichlet(np.ones(shape[-1]), shape[:-1])


def _align(weights):
    return weights.mean(axis=0)[:, :-1].argmax(axis=-1)


def aligns(align):
    """D.1: the mean over the heads decides, and [END] is left out."""
    for shape in ((2, 5, 4), (1, 3, 6), (4, 7, 9)):
        weights = _weights(*shape)
        weights[:, :2, -1] += 1  # much weight on [END]
        if not np.array_equal(align(weights.copy()), _align(weights)):
            return False
    return True


def _rollout(layers):
    product = np.eye(layers[0].shape[-1])
    for weights in layers:
        product = (weights.mean(axis=0) + np.eye(len(product))) / 2 @ product
    return product


def rolls_out(rollout):
    """D.2: each layer is multiplied from the left."""
    for number, size in ((3, 4), (1, 5), (2, 6)):
        layers = [_weights(3, size, size) for _ in range(number)]
        answer = np.asarray(rollout([weights.copy() for weights in layers]))
        if answer.shape != (size, size) or not np.allclose(answer, _rollout(layers), atol=1e-5):
            return False
    return True


def first_layer_on_the_left(layers):
    """A wrong answer to D.2: multiplies in the order of the list."""
    product = np.eye(layers[0].shape[-1])
    for weights in layers:
        product = product @ (weights.mean(axis=0) + np.eye(len(product))) / 2
    return product


def without_residuals(layers):
    """A wrong answer to D.2: leaves the residual connections out."""
    product = np.eye(layers[0].shape[-1])
    for weights in layers:
        product = weights.mean(axis=0) @ product
    return product


def _aer(predicted, sure, possible):
    found = len(predicted & sure) + len(predicted & (possible | sure))
    return 1 - found / (len(predicted) + len(sure))


def is_aer(alignment_error_rate):
    """D.3: on random links; in half of the cases the sure links are not repeated."""
    for i in range(12):
        predicted, sure, possible = (
            {tuple(link) for link in RANDOM.integers(0, 4, (size, 2)).tolist()}
            for size in (9, 6, 4)
        )
        if i % 2:
            possible |= sure
        answer = float(alignment_error_rate(set(predicted), set(sure), set(possible)))
        if not np.isclose(answer, _aer(predicted, sure, possible), atol=1e-6):
            return False
    return True


def _aer_without_sure(predicted, sure, possible):
    found = len(predicted & sure) + len(predicted & possible)
    return 1 - found / (len(predicted) + len(sure))


def _one_minus_f1(predicted, sure, possible):
    return 1 - 2 * len(predicted & sure) / (len(predicted) + len(sure))


def _without(outputs, w_o, head):
    kept = outputs.copy()
    kept[head] = 0
    heads, length, depth = outputs.shape
    return kept.transpose(1, 0, 2).reshape(length, heads * depth) @ w_o


def removes_a_head(without_head):
    """D.4: on random outputs, for each head; the arguments stay as they are."""
    for heads, length, depth, width in ((4, 5, 3, 7), (2, 3, 4, 6)):
        outputs = RANDOM.normal(size=(heads, length, depth))
        w_o = RANDOM.normal(size=(heads * depth, width))
        for head in range(heads):
            copies = outputs.copy(), w_o.copy()
            answer = np.asarray(without_head(*copies, head))
            expected = _without(outputs, w_o, head)
            if answer.shape != expected.shape or not np.allclose(answer, expected, atol=1e-5):
                return False
            if not (np.array_equal(copies[0], outputs) and np.array_equal(copies[1], w_o)):
                return False
    return True


def _only_the_head(outputs, w_o, head):
    heads, length, depth = outputs.shape
    whole = outputs.transpose(1, 0, 2).reshape(length, heads * depth) @ w_o
    return whole - _without(outputs, w_o, head)


def _wrong_order(outputs, w_o, head):
    kept = outputs.copy()
    kept[head] = 0
    heads, length, depth = outputs.shape
    return kept.reshape(length, heads * depth) @ w_o


def _changes_its_arguments(outputs, w_o, head):
    answer = _without(outputs, w_o, head)
    outputs[head] = 0
    return answer


EXERCISES = {
    "D.1": Exercise(
        test=aligns,
        hint="first the mean over axis 0, then the largest of all columns but the last.",
        wrong=(
            [1, 1, 0],
            lambda weights: np.argmax(weights.mean(axis=0), axis=-1),
            lambda weights: np.argmax(weights[0, :, :-1], axis=-1),
            lambda weights: np.argmax(weights.mean(axis=0)[:, :-1], axis=0),
        ),
    ),
    "D.2": Exercise(
        test=rolls_out,
        hint=(
            "begin with the identity; each layer's half-and-half matrix is multiplied from the "
            "left."
        ),
        wrong=(
            0.5,
            without_residuals,
            lambda layers: np.mean([weights.mean(axis=0) for weights in layers], axis=0),
            lambda layers: layers[-1].mean(axis=0),
            first_layer_on_the_left,
        ),
    ),
    "D.3": Exercise(
        test=is_aer,
        hint="a sure link is a possible link too: use the union of both sets for P.",
        wrong=(0.5, _aer_without_sure, _one_minus_f1, lambda *links: 1 - _aer(*links)),
    ),
    "D.4": Exercise(
        test=removes_a_head,
        hint=(
            "the rows head * d_v to (head + 1) * d_v of W^O belong to the head. Concatenate the "
            "heads along the last axis: (H, T, d_v) -> (T, H, d_v) -> (T, H d_v)."
        ),
        wrong=(
            0.5,
            _only_the_head,
            _wrong_order,
            _changes_its_arguments,
            lambda outputs, w_o, head: np.delete(outputs, head, axis=0),
        ),
    ),
}
