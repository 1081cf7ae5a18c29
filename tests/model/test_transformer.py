"""The whole model (Figure 1)."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.masks import create_masks
from tf_transformer.model.transformer import Transformer, project_tied

SIZES = {
    "num_layers": 1, "d_model": 8, "num_heads": 2, "dff": 16, "input_vocab_size": 11,
    "target_vocab_size": 11, "pe_input": 9, "pe_target": 9,
}  # fmt: skip
INP = tf.constant([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0]], tf.int64)
TAR = tf.constant([[2, 4, 5, 6], [2, 7, 0, 0]], tf.int64)


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


@pytest.fixture(params=[False, True], ids=["separate", "shared"])
def model(request):
    model = Transformer(**SIZES, shared_embeddings=request.param)
    model.build()
    return model


def assert_equal(outputs, expected_outputs, atol=0.0):
    tf.nest.assert_same_structure(outputs, expected_outputs)
    for output, expected in zip(tf.nest.flatten(outputs), tf.nest.flatten(expected_outputs)):
        np.testing.assert_allclose(output, expected, atol=atol, rtol=0)


def test_a_pair_equals_two_arguments_and_the_default_masks_those_of_create_masks(model):
    expected = model(INP, TAR)
    assert_equal(model((INP, TAR)), expected)
    assert_equal(model([INP, TAR], training=False), expected)
    assert_equal(model(INP, tar=TAR), expected)
    masks = create_masks(INP, TAR)
    assert_equal(model(INP, TAR, False, *masks), model(INP, TAR))
    assert_equal(model(INP, TAR, False, None, masks[1], None), model(INP, TAR))


def test_equals_the_composition_of_its_parts(model):
    enc_mask, look_ahead_mask, dec_mask = create_masks(INP, TAR)
    enc_output = model.encoder(INP, False, enc_mask)
    dec_output, weights = model.decoder(TAR, enc_output, False, look_ahead_mask, dec_mask)
    if model.final_layer:
        logits = model.final_layer(dec_output)
    else:
        logits = project_tied(dec_output, tf.transpose(model.shared_embedding.table))
    assert_equal(model(INP, TAR), (logits, weights))


@pytest.mark.parametrize("training", [False, True])
def test_attention_weights_sum_to_1_and_are_0_where_masked(training):
    """In training too: there is no dropout on them."""
    _, look_ahead_mask, dec_mask = create_masks(INP, TAR)
    _, weights = Transformer(**{**SIZES, "num_layers": 2}, rate=0.5)(INP, TAR, training)
    shapes = {"block1": (2, 2, 4, 4), "block2": (2, 2, 4, 5)}
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == {
        f"decoder_layer{i}_{block}": shape for i in (1, 2) for block, shape in shapes.items()
    }
    for name, weight in weights.items():
        np.testing.assert_allclose(np.sum(weight, -1), np.ones(weight.shape[:-1]), atol=1e-6)
        mask = look_ahead_mask if name.endswith("block1") else dec_mask
        hidden = np.broadcast_to(mask, weight.shape) == 1
        assert np.all(weight.numpy()[hidden] == 0)
        assert np.all(weight.numpy()[~hidden] > 0)


def test_shared_embeddings_are_one_variable(tmp_path):
    """Also after saving and loading."""
    model = Transformer(**SIZES, shared_embeddings=True)
    expected = model(INP, TAR)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        assert each.encoder.embedding is each.decoder.embedding is each.shared_embedding
        shapes = [tuple(variable.shape) for variable in each.trainable_variables]
        assert (shapes.count((11, 8)), shapes.count((8, 11))) == (1, 0)
        assert_equal(each(INP, TAR), expected, atol=1e-6)


def test_vocabularies():
    """Two of them need separate embeddings."""
    model = Transformer(**{**SIZES, "input_vocab_size": 20, "target_vocab_size": 6})
    logits, _ = model(tf.constant([[19, 3]]), tf.constant([[2, 5, 1]]))
    assert logits.shape == (1, 3, 6)
    with pytest.raises(ValueError, match="id 6 is outside the vocabulary of 6 sub-words"):
        model(tf.constant([[19, 3]]), tf.constant([[2, 6]]))
    with pytest.raises(ValueError, match="one vocabulary, not 11 and 12 sub-words"):
        Transformer(**{**SIZES, "target_vocab_size": 12}, shared_embeddings=True)


def test_gradient_of_a_shared_table_is_the_sum_of_its_three_uses():
    """A model with three separate tables of the same values gives the three terms."""
    shared = Transformer(**SIZES, shared_embeddings=True)
    separate = Transformer(**SIZES)
    shared.build()
    separate.build()

    def path_in_model(variable):
        return variable.path.split("/", 1)[1]

    values = {path_in_model(variable): variable.value for variable in shared.trainable_variables}
    for variable in separate.trainable_variables:
        variable.assign(values.get(path_in_model(variable), tf.zeros(variable.shape)))
    table = shared.shared_embedding.table
    separate.encoder.embedding.table.assign(table)
    separate.decoder.embedding.table.assign(table)
    separate.final_layer.kernel.assign(tf.transpose(table))

    def gradients(model, *variables):
        with tf.GradientTape() as tape:
            logits, _ = model(INP, TAR)
            loss = tf.reduce_sum(tf.nn.log_softmax(logits)[..., 5])
        grads = tape.gradient(loss, [variable.value for variable in variables])
        return [tf.convert_to_tensor(grad) for grad in grads]

    (grad_shared,) = gradients(shared, table)
    grad_encoder, grad_decoder, grad_kernel = gradients(
        separate,
        separate.encoder.embedding.table,
        separate.decoder.embedding.table,
        separate.final_layer.kernel,
    )
    expected = grad_encoder + grad_decoder + tf.transpose(grad_kernel)
    np.testing.assert_allclose(grad_shared, expected, atol=1e-4)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_dropout_on_embedding_and_position(stack):
    """Sec. 5.4: with a rate close to 1, the input of the first layer is 0 in training only."""
    model = Transformer(**{**SIZES, "num_layers": 0}, rate=1 - 1e-7)
    model.build()

    def input_of_first_layer(training):
        """The output of a stack without layers."""
        if stack == "encoder":
            return model.encoder(INP, training)
        x, _ = model.decoder(TAR, tf.zeros((2, 5, 8)), training)
        return x

    assert np.abs(input_of_first_layer(training=True)).max() == 0
    assert np.abs(input_of_first_layer(training=False)).max() > 1
