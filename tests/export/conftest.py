"""The exported model of the session, loaded as a client of TensorFlow does."""

import pytest


@pytest.fixture(scope="session")
def option_defaults():
    """For each signature its options with their defaults, tensors."""
    import tensorflow as tf

    from tf_transformer.config import DecodeConfig
    from tf_transformer.export.signatures import SIGNATURES, request_options

    every = request_options(DecodeConfig())
    return {
        name: {each: tf.constant([every[each].default], every[each].dtype) for each in options}
        for name, (_, options) in SIGNATURES.items()
    }


@pytest.fixture(scope="session")
def call(exported, option_defaults):
    """Calls a signature, with its defaults for the inputs that are left out."""
    import tensorflow as tf

    from tf_transformer.export.signatures import SIGNATURES

    model = tf.saved_model.load(exported)

    def call(name, **inputs):
        tensors = dict(option_defaults[name])
        for key, values in inputs.items():
            is_text = key in SIGNATURES[name].texts
            tensors[key] = tf.constant(values, tf.string if is_text else None)
        return {key: x.numpy() for key, x in model.signatures[name](**tensors).items()}

    return call
