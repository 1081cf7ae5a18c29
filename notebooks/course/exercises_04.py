"""The exercises of notebook 04."""

from course import Exercise

import numpy as np


def is_absolute_value(answer):
    """04.1: whether four arrays are the weights of a feed-forward network of |x|."""
    w_1, b_1, w_2, b_2 = (np.asarray(part, float) for part in answer)
    if (w_1.shape, b_1.shape, w_2.shape, b_2.shape) != ((1, 2), (2,), (2, 1), (1,)):
        shapes = f"{w_1.shape}, {b_1.shape}, {w_2.shape}, {b_2.shape}"
        raise ValueError(f"the shapes are {shapes}")
    x = np.linspace(-7, 7, 29)[:, np.newaxis]
    y = np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2
    return np.allclose(y, np.abs(x), atol=1e-4)


def mask_of_packed(segments):
    """The mask of 04.2: (B, T) -> (B, 1, T, T)."""
    length = segments.shape[1]
    same = segments[:, :, np.newaxis] == segments[:, np.newaxis, :]
    past = np.tril(np.ones((length, length), bool))
    shown = same & past & (segments[:, np.newaxis, :] != 0)
    return 1.0 - shown[:, np.newaxis]


def random_segments(rng):
    """Rows such as 1 1 2 2 2 3 0 0."""
    rows = []
    for _ in range(3):
        lengths = rng.integers(1, 4, 3)
        row = np.repeat([1, 2, 3], lengths)
        rows.append(np.concatenate([row, np.zeros(10 - len(row), int)]))
    return np.array(rows, "int32")


def is_packed_mask(answer):
    """04.2: whether a function makes the mask of packed sentences."""
    for seed in range(5):
        segments = random_segments(np.random.default_rng(seed))
        mask = np.asarray(answer(segments), float)
        expected = mask_of_packed(segments)
        if mask.shape != expected.shape:
            raise ValueError(f"the shape is {mask.shape}, not {expected.shape}")
        if not np.array_equal(mask, expected):
            return False
    return True


def number_of_weights(num_layers, d_model, dff, vocab_size):
    """04.3: the weights of the Transformer of the notebook."""
    attention = 4 * (d_model * d_model + d_model)  # wq, wk, wv, dense
    feed_forward = (d_model * dff + dff) + (dff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return num_layers * (encoder_layer + decoder_layer) + vocab_size * d_model


def is_number_of_weights(answer):
    """04.3: whether a function counts the weights of random models."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        num_layers, heads = (int(number) for number in rng.integers(1, 9, 2))
        d_model = heads * int(rng.integers(3, 65))
        dff, vocab_size = (int(number) for number in rng.integers(50, 40_000, 2))
        sizes = num_layers, d_model, dff, vocab_size
        if answer(*sizes) != number_of_weights(*sizes):
            return False
    return True


def _wrong_masks():
    """Functions that forget one of the three conditions of 04.2."""

    def sees_other_sentences(segments):
        length = segments.shape[1]
        future = np.triu(np.ones((length, length)), 1)
        return np.maximum(future, (segments == 0)[:, np.newaxis, np.newaxis])

    def sees_the_future(segments):
        other = segments[:, :, np.newaxis] != segments[:, np.newaxis, :]
        return np.maximum(other, (segments == 0)[:, np.newaxis])[:, np.newaxis]

    def sees_padding(segments):
        length = segments.shape[1]
        other = segments[:, :, np.newaxis] != segments[:, np.newaxis, :]
        return np.maximum(other, np.triu(np.ones((length, length)), 1))[:, np.newaxis]

    def inverted(segments):
        return 1 - mask_of_packed(segments)

    def without_heads(segments):
        return mask_of_packed(segments)[:, 0]

    return (
        sees_other_sentences,
        sees_the_future,
        sees_padding,
        inverted,
        without_heads,
        5,
    )


def _wrong_numbers_of_weights():
    """Plausible wrong answers to 04.3: each counts too much or forgets something."""

    def without(forgotten):
        return lambda *sizes: number_of_weights(*sizes) - forgotten(*sizes)

    def biases(num_layers, d_model, dff, vocab_size):
        return num_layers * (3 * 4 * d_model + 2 * (dff + d_model))

    def layer_norms(num_layers, d_model, dff, vocab_size):
        return num_layers * 5 * 2 * d_model

    def third_norm_of_the_decoder(num_layers, d_model, dff, vocab_size):
        return num_layers * 2 * d_model

    def betas(num_layers, d_model, dff, vocab_size):
        return num_layers * 5 * d_model

    def second_attention_of_the_decoder(num_layers, d_model, dff, vocab_size):
        return num_layers * 4 * (d_model * d_model + d_model)

    def output_projection_of_the_heads(num_layers, d_model, dff, vocab_size):
        return num_layers * 3 * (d_model * d_model + d_model)

    def table(num_layers, d_model, dff, vocab_size):
        return vocab_size * d_model

    def table_counted_twice(*sizes):
        return number_of_weights(*sizes) + table(*sizes)

    def table_counted_three_times(*sizes):
        return number_of_weights(*sizes) + 2 * table(*sizes)

    def bias_of_the_logits(*sizes):
        return number_of_weights(*sizes) + sizes[-1]

    def one_stack(*sizes):
        return (number_of_weights(*sizes) - table(*sizes)) // 2 + table(*sizes)

    return (
        without(biases),
        without(layer_norms),
        without(third_norm_of_the_decoder),
        without(betas),
        without(second_attention_of_the_decoder),
        without(output_projection_of_the_heads),
        without(table),
        table_counted_twice,
        table_counted_three_times,
        bias_of_the_logits,
        one_stack,
        1_181_696,
    )


EXERCISES = {
    "04.1": Exercise(
        test=is_absolute_value,
        hint=(
            "one inner number can be x where x is positive, and another one -x where x "
            "is negative; the second matrix adds them."
        ),
        wrong=(
            [[[1, 1]], [0, 0], [[1], [1]], [0]],
            [[[1, -1]], [0, 0], [[1], [-1]], [0]],
            [1, 0, 1, 0],
            1,
        ),
    ),
    "04.2": Exercise(
        test=is_packed_mask,
        hint=(
            "three conditions hide a position: it is in another sentence, in the future, "
            "or padding. segments[:, :, np.newaxis] != segments[:, np.newaxis, :] "
            "compares all pairs."
        ),
        wrong=_wrong_masks(),
    ),
    "04.3": Exercise(
        test=is_number_of_weights,
        hint=(
            "a Dense layer from a to b numbers has a b + b weights, a layer normalization "
            "2 d_model; a decoder layer has two attentions and three normalizations; "
            "the table counts once, and the product with it has no bias."
        ),
        wrong=_wrong_numbers_of_weights(),
    ),
}
