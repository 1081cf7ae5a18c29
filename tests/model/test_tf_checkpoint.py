"""The training loop of TensorFlow's tutorial, with its `CheckpointManager`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_transformer as package

D, V = 8, 22


@pytest.mark.parametrize("is_built", [True, False])
def test_the_training_loop_of_the_tutorial_goes_on(is_built, tmp_path):
    """A run that was stopped has the weights of one that was not, to the last bit."""
    random = np.random.default_rng(2)
    batches = tf.constant(random.integers(1, V, (4, 3, 7)), tf.int64)

    def train(folder, first, last):
        keras.utils.set_random_seed(1)
        model = package.Transformer(1, D, 2, 16, V, V, 30, 30, rate=0.0)
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
        names = [name for name, _ in tf.train.list_variables(manager.save())]
        numbers = len(model.weights) + len(optimizer.variables) + 1  # and of the checkpoints
        assert sum("VARIABLE_VALUE" in name for name in names) == numbers
        return model.get_weights()

    expected = train("whole", 0, 4)
    train("stopped", 0, 2)
    for found, weight in zip(train("stopped", 2, 4), expected, strict=True):
        np.testing.assert_array_equal(found, weight)
