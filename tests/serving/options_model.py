"""A SavedModel with inputs of several types, some of which have defaults."""

import tensorflow as tf

LARGEST_N_BEST = 4
N_BEST = tf.constant([2])
LENGTH_PENALTY = tf.constant([0.6])
SEED = tf.constant([7], tf.int64)
TARGET_PREFIX = tf.constant([""])


class Options(tf.Module):
    """Joins prefix and text; an n-best number that is not 1 to 4 is an error of the graph."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            tf.TensorSpec([None], tf.int32, name="n_best"),
            tf.TensorSpec([None], tf.float32, name="length_penalty"),
            tf.TensorSpec([None], tf.int64, name="seed"),
            tf.TensorSpec([None], tf.string, name="target_prefix"),
        ]
    )
    def options(
        self,
        text,
        n_best=N_BEST,
        length_penalty=LENGTH_PENALTY,
        seed=SEED,
        target_prefix=TARGET_PREFIX,
    ):
        in_range = tf.reduce_all((n_best >= 1) & (n_best <= LARGEST_N_BEST))
        check = tf.debugging.Assert(in_range, ["n_best must be 1 to", LARGEST_N_BEST])
        with tf.control_dependencies([check]):
            text = tf.strings.join([target_prefix, text])
        return {
            "translations": tf.stack([text, tf.strings.upper(text)], axis=1),
            "numbers": tf.cast(n_best, tf.int64) + seed,
            "penalty": tf.identity(length_penalty),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serving_default(self, text):
        return {"translation": tf.strings.upper(text)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def count_tokens(self, text):
        return {"tokens": tf.strings.length(text)}


def export_options_model(folder):
    """Writes version 1 into a folder; returns its path."""
    module = Options()
    path = str(folder / "1")
    signatures = {
        "serving_default": module.serving_default,
        "options": module.options,
        "count_tokens": module.count_tokens,
    }
    tf.saved_model.save(module, path, signatures=signatures)
    return path
