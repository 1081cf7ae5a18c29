"""The attention weights of a sentence with queries and keys."""

import functools

from tf_transformer.decoding.attention_example import attention_example
from tf_transformer.model.layers import DecoderLayer, EncoderLayer


def test_the_sentence_goes_through_each_layer_once(translator, monkeypatch):
    calls = []

    def recorded(function):
        @functools.wraps(function)  # Keras reads the signature
        def call(layer, *args, **kwargs):
            calls.append(layer)
            return function(layer, *args, **kwargs)

        return call

    for kind in (EncoderLayer, DecoderLayer):
        monkeypatch.setattr(kind, "call", recorded(kind.call))
    attention_example(translator, "Anna sees the dog.", "Anna sieht den Hund.")
    model = translator.model
    assert calls == [*model.encoder.enc_layers, *model.decoder.dec_layers]
