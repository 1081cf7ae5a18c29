"""The whole model (Figure 1)."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.masks import create_masks
from tf_transformer.model.transformer import Transformer

SIZES = dict(
    num_layers=1,
    d_model=8,
    num_heads=2,
    dff=16,
    input_vocab_size=11,
    target_vocab_size=11,
    pe_input=9,
    pe_target=9,
)
INP = np.array([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0]])
TAR = np.array([[2, 4, 5, 6], [2, 7, 0, 0]])


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


@pytest.fixture(params=[False, True], ids=["own", "shared"])
def model(request):
    model = Transformer(**SIZES, shared_embeddings=request.param)
    model.build()
    return model


def ids():
    return tf.constant(INP), tf.constant(TAR)


def assert_equal(outputs, others, atol=0.0):
    tf.nest.assert_same_structure(outputs, others)
    for one, other in zip(tf.nest.flatten(outputs), tf.nest.flatten(others)):
        np.testing.assert_allclose(one, other, atol=atol, rtol=0)


def test_a_pair_equals_two_arguments(model):
    inp, tar = ids()
    expected = model(inp, tar)
    assert_equal(model((inp, tar)), expected)
    assert_equal(model([inp, tar], training=False), expected)
    assert_equal(model(inp, tar, False), expected)
    assert_equal(model(inp, tar=tar), expected)


def test_masks_left_out_are_those_of_create_masks(model):
    inp, tar = ids()
    masks = create_masks(inp, tar)
    assert_equal(model(inp, tar, False, *masks), model(inp, tar))
    assert_equal(model(inp, tar, False, None, masks[1], None), model(inp, tar))


def test_masks_given_are_the_masks_used(model):
    inp, tar = ids()
    enc_mask, look_ahead_mask, dec_mask = create_masks(inp, tar)
    hidden = tf.maximum(dec_mask, tf.constant([0.0, 1, 0, 0, 0]))
    _, weights = model(inp, tar, False, enc_mask, look_ahead_mask, hidden)
    assert np.all(weights["decoder_layer1_block2"][..., 1] == 0)
    logits, _ = model(inp, tar, False, enc_mask, tf.zeros_like(look_ahead_mask), dec_mask)
    assert not np.allclose(
        logits[:, 0], model(inp, tar)[0][:, 0]
    )  # the first word sees the later ones


def test_equals_the_composition_of_its_parts(model):
    inp, tar = ids()
    enc_mask, look_ahead_mask, dec_mask = create_masks(inp, tar)
    enc_output = model.encoder(inp, False, enc_mask)
    dec_output, weights = model.decoder(tar, enc_output, False, look_ahead_mask, dec_mask)
    if model.final_layer:
        logits = model.final_layer(dec_output)
    else:
        logits = dec_output @ tf.transpose(model.shared_embedding.table)
    assert_equal(model(inp, tar), (logits, weights))


def test_names_and_shapes_of_the_attention_weights():
    logits, weights = Transformer(**{**SIZES, "num_layers": 2})(*ids())
    assert logits.shape == (2, 4, 11)
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == {
        "decoder_layer1_block1": (2, 2, 4, 4),
        "decoder_layer1_block2": (2, 2, 4, 5),
        "decoder_layer2_block1": (2, 2, 4, 4),
        "decoder_layer2_block2": (2, 2, 4, 5),
    }


def test_attention_weights_sum_to_1_and_are_0_where_masked(model):
    inp, tar = ids()
    _, look_ahead_mask, dec_mask = create_masks(inp, tar)
    _, weights = model(inp, tar)
    for name, weight in weights.items():
        np.testing.assert_allclose(
            tf.reduce_sum(weight, axis=-1), np.ones(weight.shape[:-1]), atol=1e-6
        )
        hidden = (
            np.broadcast_to(look_ahead_mask if name.endswith("block1") else dec_mask, weight.shape)
            == 1
        )
        assert np.all(weight.numpy()[hidden] == 0) and np.all(weight.numpy()[~hidden] > 0)


def test_training_is_random_and_inference_is_not(model):
    inp, tar = ids()
    assert_equal(model(inp, tar, False), model(inp, tar, training=False))
    assert_equal(model(inp, tar), model(inp, tar, False))
    one, other = model(inp, tar, True)[0], model(inp, tar, training=True)[0]
    assert not np.allclose(one, other) and not np.allclose(one, model(inp, tar, False)[0])


def test_shared_embeddings_are_one_variable():
    model = Transformer(**SIZES, shared_embeddings=True)
    model.build()
    assert model.encoder.embedding is model.decoder.embedding is model.shared_embedding
    tables = [variable for variable in model.trainable_variables if variable.shape == (11, 8)]
    assert len(tables) == 1 and tables[0] is model.shared_embedding.table
    assert not any(variable.shape == (8, 11) for variable in model.trainable_variables)


def test_gradient_of_a_shared_table_is_the_sum_of_its_three_uses():
    """d/dE f(E, E, E), where the model with three tables of the same values gives the parts."""
    shared, own = Transformer(**SIZES, shared_embeddings=True), Transformer(**SIZES)
    shared.build(), own.build()
    values = {
        variable.path.split("/", 1)[1]: variable.value for variable in shared.trainable_variables
    }
    for variable in own.trainable_variables:
        variable.assign(values.get(variable.path.split("/", 1)[1], tf.zeros(variable.shape)))
    for embedding in (own.encoder.embedding, own.decoder.embedding):
        embedding.table.assign(shared.shared_embedding.table)
    own.final_layer.kernel.assign(tf.transpose(shared.shared_embedding.table))

    def gradients(model, variables):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.log_softmax(model(*ids())[0])[..., 5])
        return [
            tf.convert_to_tensor(gradient)
            for gradient in tape.gradient(loss, [variable.value for variable in variables])
        ]

    (whole,) = gradients(shared, [shared.shared_embedding.table])
    parts = gradients(
        own, [own.encoder.embedding.table, own.decoder.embedding.table, own.final_layer.kernel]
    )
    np.testing.assert_allclose(whole, parts[0] + parts[1] + tf.transpose(parts[2]), atol=1e-4)


def test_shared_embeddings_stay_one_variable_through_saving(tmp_path):
    model = Transformer(**SIZES, shared_embeddings=True)
    expected = model(*ids())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.encoder.embedding is loaded.decoder.embedding is loaded.shared_embedding
    assert loaded.count_params() == model.count_params()
    assert_equal(loaded(*ids()), expected, atol=1e-6)


def test_shared_embeddings_need_one_vocabulary():
    with pytest.raises(ValueError, match="one vocabulary, not 11 and 12 sub-words"):
        Transformer(**{**SIZES, "target_vocab_size": 12}, shared_embeddings=True)


def test_own_embeddings_may_have_two_vocabularies():
    model = Transformer(**{**SIZES, "input_vocab_size": 20, "target_vocab_size": 6})
    logits, _ = model(tf.constant([[19, 3]]), tf.constant([[2, 5, 1]]))
    assert logits.shape == (1, 3, 6)
    with pytest.raises(ValueError, match="id 6 is outside the vocabulary of 6 sub-words"):
        model(tf.constant([[19, 3]]), tf.constant([[2, 6]]))


def test_compile_and_fit_on_the_pair():
    """The target says the source backwards; a few epochs learn a part of it."""
    rng = np.random.default_rng(1)
    inp = rng.integers(3, 11, (64, 4))
    tar_real = inp[:, ::-1]
    tar = np.concatenate([np.full((64, 1), 2), tar_real[:, :-1]], axis=1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = Transformer(**SIZES)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["sparse_categorical_accuracy"])

    def by_hand():
        return float(loss(tar_real, model(tf.constant(inp), tf.constant(tar))[0]))

    before = by_hand()
    history = model.fit((inp, tar), tar_real, batch_size=32, epochs=12, verbose=0).history
    after = model.evaluate((inp, tar), tar_real, verbose=0, return_dict=True)
    np.testing.assert_allclose(after["loss"], by_hand(), rtol=1e-4)
    assert history["loss"][-1] < history["loss"][0] < 1.3 * before
    assert after["loss"] < 0.8 * before
    assert after["sparse_categorical_accuracy"] > 0.3  # by chance 1 / 8


def test_a_graph_of_unknown_lengths_equals_the_eager_model():
    model = Transformer(**SIZES, shared_embeddings=True)
    model.build()
    graph = tf.function(
        lambda inp, tar: model(inp, tar),
        input_signature=[tf.TensorSpec([None, None], tf.int64)] * 2,
    )
    assert_equal(graph(*ids()), model(*ids()), atol=1e-5)
    assert_equal(
        graph(INP[:1, :2], TAR[:1, :1]),
        model(tf.constant(INP[:1, :2]), tf.constant(TAR[:1, :1])),
        atol=1e-5,
    )


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_dropout_on_embedding_and_position(stack):
    """Sec. 5.4: with a rate of almost 1 the first layer gets zeros in training, and else the sum."""
    model = Transformer(**SIZES, rate=1 - 1e-7)
    model.build()
    part = getattr(model, stack)
    layers = part.enc_layers if stack == "encoder" else part.dec_layers
    inputs = []
    layers[0].call = lambda x, *rest, **named: (inputs.append(x), x, x)
    del layers[1:]
    inp, tar = ids()
    arguments = [inp] if stack == "encoder" else [tar, tf.zeros((*inp.shape, model.d_model))]
    for training in (True, False):
        part.call(*arguments, training=training)
    assert np.abs(inputs[0]).max() == 0 and np.abs(inputs[1]).max() > 1


def test_no_dropout_on_attention_weights():
    """Each row of weights adds up to 1 in training too."""
    model = Transformer(**SIZES, rate=0.5)
    _, attention_weights = model(*ids(), training=True)
    for weights in attention_weights.values():
        np.testing.assert_allclose(np.sum(weights, axis=-1), 1, rtol=1e-5)
