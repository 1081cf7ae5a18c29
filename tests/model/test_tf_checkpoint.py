"""`tf.train.Checkpoint` holds every weight, as the training loop of TensorFlow's tutorial needs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_transformer as package
from tf_transformer import Variant

D, V = 8, 22
IDS = np.array([[4, 5, 6, 0, 0], [7, 8, 9, 3, 2]])
X = np.random.default_rng(1).normal(size=(2, 6, D)).astype("float32")


def transformer(**options):
    return package.Transformer(2, D, 2, 16, V, V, 30, 30, **options)


def encoder():
    return package.Encoder(2, D, 2, 16, V, 30)


def decoder():
    return package.Decoder(2, D, 2, 16, V, 30)


def functional_model():
    inp, tar = (keras.Input((None,), dtype="int32") for _ in range(2))
    x, _ = decoder()(tar, encoder()(inp))
    return keras.Model([inp, tar], keras.layers.Dense(V)(x))


def sequential_model():
    return keras.Sequential([
        package.Embedding(V, D),
        package.PositionalEncoding(30, D, kind="learned"),
        package.EncoderLayer(D, 2, 16),
        keras.layers.Dense(3),
    ])  # fmt: skip


# Name -> a function that makes a model, and the arguments of its call.
MODELS = {
    "separate": (transformer, (IDS, IDS)),
    "shared": (lambda: transformer(shared_embeddings=True), (IDS, IDS)),
    "learned": (lambda: transformer(variant=Variant(positional_encoding="learned")), (IDS, IDS)),
    "pre-norm": (lambda: transformer(variant=Variant(norm="pre")), (IDS, IDS)),
    "key_dim": (lambda: transformer(variant=Variant(key_dim=3, value_dim=5)), (IDS, IDS)),
    "encoder": (encoder, (IDS,)),
    "decoder": (decoder, (IDS, X)),
    "functional": (functional_model, ([IDS, IDS],)),
    "sequential": (sequential_model, (IDS,)),
}


def variables_in(path):
    names = [name for name, _ in tf.train.list_variables(path)]
    return [name for name in names if "VARIABLE_VALUE" in name and "save_counter" not in name]


@pytest.mark.parametrize("make, inputs", MODELS.values(), ids=MODELS)
def test_every_weight_is_saved_and_restored(make, inputs, tmp_path):
    """Before the first call of the new model too."""

    def output(model):
        return tf.nest.flatten(model(*inputs))[0]

    model = make()
    expected = output(model)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    assert len(variables_in(path)) == len(model.weights)
    for is_built in (True, False):
        other = make()
        if is_built:
            assert np.abs(output(other) - expected).max() > 0.01
        status = tf.train.Checkpoint(model=other).restore(path)
        np.testing.assert_array_equal(output(other), expected)
        status.assert_consumed()


@pytest.mark.parametrize("is_built", [True, False])
def test_the_training_loop_of_the_tutorial_goes_on(is_built, tmp_path):
    """A run that was stopped has the weights of one that was not, to the last bit."""
    random = np.random.default_rng(2)
    batches = tf.constant(random.integers(1, V, (4, 3, 7)), tf.int64)

    def train(folder, first, last):
        keras.utils.set_random_seed(1)
        model = transformer(rate=0.0)
        optimizer = keras.optimizers.Adam(package.CustomSchedule(D))
        checkpoint = tf.train.Checkpoint(transformer=model, optimizer=optimizer)
        manager = tf.train.CheckpointManager(checkpoint, tmp_path / folder, max_to_keep=5)
        if is_built:
            model.build()
            optimizer.build(model.trainable_variables)
        if manager.latest_checkpoint:
            status = checkpoint.restore(manager.latest_checkpoint)
            if is_built:
                status.assert_consumed()

        @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int64)] * 2)
        def train_step(inp, tar):
            tar_inp, tar_real = tar[:, :-1], tar[:, 1:]
            masks = package.create_masks(inp, tar_inp)
            with tf.GradientTape() as tape:
                predictions, _ = model(inp, tar_inp, True, *masks)
                loss = package.LabelSmoothedCrossEntropy(0.0)(tar_real, predictions)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        for batch in batches[first:last]:
            train_step(batch, batch)
        path = manager.save()
        assert len(variables_in(path)) == len(model.weights) + len(optimizer.variables)
        return model.get_weights()

    expected = train("whole", 0, 4)
    train("stopped", 0, 2)
    for found, weight in zip(train("stopped", 2, 4), expected, strict=True):
        np.testing.assert_array_equal(found, weight)
