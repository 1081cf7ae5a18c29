"""The layers and functions in programs of Keras users: masks, `fit`, saving, export, own loops."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_transformer as package
from tf_transformer.model.dense import Dense
from tf_transformer.model.dropout import Dropout
from tf_transformer.model.layer_norm import LayerNormalization

D, V = 8, 22
IDS = tf.constant([[4, 5, 6, 0, 0], [7, 8, 9, 3, 2]])
SHORT = IDS[:1, :3]  # without its padding
OTHER = tf.concat([IDS[:, :4], IDS[:, 4:] + 1], axis=1)  # another last token
MEMORY = tf.random.stateless_normal((2, 6, D), (1, 2))
X = tf.random.stateless_normal((2, 5, D), (3, 4))
OTHER_X = tf.concat([X[:, :4], X[:, 4:] + 1], axis=1)
SHOWN = IDS != 0  # a mask of Keras
LOSS = package.LabelSmoothedCrossEntropy


def largest_difference(a, b):
    return float(tf.reduce_max(tf.abs(a - b)))


def transformer(model_class=package.Transformer, rate=0.0):
    keras.utils.set_random_seed(1)
    return model_class(1, D, 2, 16, V, V, 30, 30, rate=rate)


@pytest.fixture
def encoder():
    return package.Encoder(2, D, 2, 16, V, 30)


@pytest.fixture
def decoder():
    return package.Decoder(2, D, 2, 16, V, 30)


def test_an_encoder_hides_padding(encoder):
    assert largest_difference(encoder(IDS)[:1, :3], encoder(SHORT)) < 1e-5
    assert largest_difference(encoder(IDS, mask=0.0)[:1, :3], encoder(SHORT)) > 0.01
    for mask in (SHOWN, SHOWN.numpy(), package.create_padding_mask(IDS)):
        np.testing.assert_array_equal(encoder(IDS, mask=mask), encoder(IDS))
    weights = encoder.attention_weights(IDS)["encoder_layer1"]  # (B, H, S, S)
    np.testing.assert_array_equal(weights[0, :, :, 3:], 0)


def test_a_decoder_hides_the_future(decoder):
    for layer, x, other in (
        (decoder, IDS, OTHER),
        (package.DecoderLayer(D, 2, 16), X, OTHER_X),
        (transformer().decoder, IDS, OTHER),
    ):
        moved = largest_difference(layer(x, MEMORY)[0][:, :4], layer(other, MEMORY)[0][:, :4])
        assert moved == 0
        options = {"look_ahead_mask": 0.0}
        outputs = [layer(each, MEMORY, **options)[0] for each in (x, other)]
        assert largest_difference(outputs[0][:, :4], outputs[1][:, :4]) > 0.01


def test_a_decoder_hides_padding_of_both_sides(encoder, decoder):
    short = decoder(SHORT, encoder(SHORT))[0]
    assert largest_difference(decoder(IDS, encoder(IDS))[0][:1, :3], short) < 1e-5
    memory = keras.ops.stop_gradient(encoder(IDS))  # which loses the implicit mask
    output = decoder(IDS, memory, padding_mask=SHOWN)[0]
    assert largest_difference(output[:1, :3], short) < 1e-5
    assert largest_difference(decoder(IDS, memory)[0][:1, :3], short) > 0.01


@pytest.mark.parametrize("square", [False, True])
def test_implicit_masks_reach_the_attention(square, tmp_path):
    """From Keras' embedding and from ours, in `Sequential`; also after loading."""
    ids, short = (IDS[:, :2], IDS[:1, :2]) if square else (IDS, SHORT)
    ids = tf.concat([ids[:1], tf.zeros_like(ids[1:])], axis=0)  # batch and length are equal
    for embedding_class in (keras.layers.Embedding, package.Embedding):
        model = keras.Sequential([
            embedding_class(V, D, mask_zero=True),
            package.PositionalEncoding(30, D),
            package.EncoderLayer(D, 2, 16),
            package.point_wise_feed_forward_network(D, 16),
            keras.layers.GlobalAveragePooling1D(),
        ])  # fmt: skip
        assert largest_difference(model(ids)[:1], model(short)) < 1e-5
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(ids), model(ids))


LAYERS = {
    "MultiHeadAttention": lambda x: package.MultiHeadAttention(D, 2)(x, x, x)[0],
    "MultiHeadAttention, cross": lambda x: package.MultiHeadAttention(D, 2)(
        *[package.Embedding(V, D, mask_zero=True)(keras.ops.ones_like(x[:, :2, 0]))] * 2, x
    )[0],
    "EncoderLayer": package.EncoderLayer(D, 2, 16),
    "DecoderLayer": lambda x: package.DecoderLayer(D, 2, 16)(x, x)[0],
    "LayerNormalization": LayerNormalization(),
    "Dense": Dense(D),
    "Dropout": Dropout(0.1),
    "PositionalEncoding": package.PositionalEncoding(30, D),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_implicit_masks_stay(layer):
    """The pooling after the layer leaves the padding out."""
    ids = keras.Input((None,), dtype="int32")
    x = layer(package.Embedding(V, D, mask_zero=True)(ids))
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(x))
    assert largest_difference(model(IDS)[:1], model(SHORT)) < 1e-5


RAGGED_IDS = tf.ragged.constant([[4, 5, 6], [7, 8, 9, 3, 2]])
RAGGED = tf.RaggedTensor.from_tensor(X, [3, 5])
RAGGED_CALLS = {
    "Transformer": lambda: transformer()(IDS, RAGGED_IDS),
    "a pair": lambda: transformer()((RAGGED_IDS, IDS)),
    "predict": lambda: transformer().predict([RAGGED_IDS, RAGGED_IDS], verbose=0),
    "Encoder": lambda: package.Encoder(1, D, 2, 16, V, 30)(RAGGED_IDS),
    "Embedding": lambda: package.Embedding(V, D)(RAGGED_IDS),
    "MultiHeadAttention": lambda: package.MultiHeadAttention(D, 2)(RAGGED, RAGGED, RAGGED),
    "a mask": lambda: package.EncoderLayer(D, 2, 16)(X, mask=RAGGED[:, :, 0] > -9),
    "ffn": lambda: package.point_wise_feed_forward_network(D, 16)(RAGGED),
    "attention": lambda: package.scaled_dot_product_attention(RAGGED, RAGGED, RAGGED),
    "create_masks": lambda: package.create_masks(IDS, RAGGED_IDS),
    "loss": lambda: LOSS()(RAGGED_IDS, tf.zeros((2, 5, V))),
    "metric": lambda: package.TokenAccuracy()(RAGGED_IDS, tf.zeros((2, 5, V))),
    "sums": lambda: package.label_smoothed_cross_entropy(RAGGED_IDS, tf.zeros((2, 5, V))),
    "accuracy": lambda: package.token_accuracy(RAGGED_IDS, tf.zeros((2, 5, V))),
}


@pytest.mark.parametrize("call", RAGGED_CALLS.values(), ids=RAGGED_CALLS)
def test_ragged_tensors_are_refused(call):
    with pytest.raises(TypeError, match=r"a RaggedTensor: give x.to_tensor\(\)"):
        call()


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_quantization_is_refused(name):
    model = transformer()
    model.build()
    for layer in (model, getattr(model, name)):
        with pytest.raises(NotImplementedError, match="--format=ctranslate2 --quantization=int8"):
            layer.quantize("int8")


def test_functions_in_functional_models(tmp_path):
    inp, tar = (keras.Input((None,), dtype="int64") for _ in range(2))
    q = keras.Input((None, D))
    masks = package.create_masks(inp, tar)
    outputs = [*masks, package.create_padding_mask(inp)]
    outputs += package.scaled_dot_product_attention(q, q, q, None)
    outputs += package.scaled_dot_product_attention(q, q, q, masks[1][:, 0])
    outputs += [keras.layers.Lambda(package.create_padding_mask)(inp)]
    assert outputs[1].shape == (None, 1, None, None)
    model = keras.Model([inp, tar, q], outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    found = loaded([IDS, IDS, X])
    expected = [*package.create_masks(IDS, IDS), package.create_padding_mask(IDS)]
    expected += package.scaled_dot_product_attention(X, X, X, None)
    expected += package.scaled_dot_product_attention(X, X, X, expected[1][:, 0])
    expected += [package.create_padding_mask(IDS)]
    for each, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, value, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64", "int32"])
def test_ids_of_any_type(dtype, encoder):
    np.testing.assert_array_equal(encoder(tf.cast(IDS, dtype)), encoder(IDS))
    inputs = keras.Input((5,), dtype=dtype)
    np.testing.assert_array_equal(keras.Model(inputs, encoder(inputs))(IDS), encoder(IDS))


def test_float_ids_are_not_rounded():
    """In bfloat16, 257 becomes 256."""
    model = package.Transformer(1, D, 2, 16, 300, 300, 9, 9, dtype="mixed_bfloat16")
    ids = tf.constant([[257, 3]])
    for layer in (model, model.encoder, model.encoder.embedding):
        given = (ids, ids) if layer is model else (ids,)
        found, expected = (
            tf.nest.flatten(layer(*(tf.cast(each, dtype) for each in given)))[0]
            for dtype in (tf.float32, tf.int32)
        )
        np.testing.assert_array_equal(found, expected)


class CustomStep(package.Transformer):
    """The custom `train_step` of Keras' guide."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}


def fit(strategy=None, model_class=package.Transformer, named=False):
    """Two updates from the same weights. Returns: the history and the model."""
    generator = np.random.default_rng(1)
    inp, tar, y = (generator.integers(1, V, (8, 6)) for _ in range(3))
    for row in range(8):
        y[row, 6 - row % 4 :] = 0  # replicas have unequal numbers of tokens
    with (strategy or tf.distribute.get_strategy()).scope():
        model = transformer(model_class)
        metrics = [package.TokenAccuracy()]
        model.compile(keras.optimizers.SGD(0.1), LOSS(0.1), metrics=metrics)
    x = {"inp": inp, "tar": tar} if named else [inp, tar]
    history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    return history, model, (inp, tar, y)


def test_loss_and_metric_of_fit_are_means_over_tokens():
    history, model, (inp, tar, y) = fit()
    logits, _ = transformer()(inp, tar)
    for name, sums in (
        ("loss", package.label_smoothed_cross_entropy(y, logits)),
        ("token_accuracy", package.token_accuracy(y, logits)),
    ):
        assert history[name][0] == pytest.approx(float(sums.total / sums.tokens), rel=1e-6)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for options in ({"strategy": strategy}, {"model_class": CustomStep}, {"named": True}):
        other_history, other, _ = fit(**options)
        for name, values in history.items():
            assert other_history[name] == pytest.approx(values, rel=1e-5), options
        for a, b in zip(other.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_sample_weights_of_the_loss():
    """A weight of 0 removes a sentence, but its tokens are counted; a factor is a factor."""
    y = tf.constant([[3, 4, 0], [5, 6, 7]])
    logits = tf.random.stateless_normal((2, 3, V), (5, 6))
    sums = package.label_smoothed_cross_entropy(y[1:], logits[1:])
    found = LOSS()(y, logits, sample_weight=[0.0, 1.0])
    assert float(found) == pytest.approx(float(sums.total) / 5)
    assert float(LOSS()(y, logits, [2.0, 2.0])) == pytest.approx(2 * float(LOSS()(y, logits)))


@pytest.mark.parametrize(
    "value", [{"label_smoothing": -0.1}, {"label_smoothing": 1.0}, {"reduction": "sum"}]
)
def test_settings_of_the_loss(value):
    (name,) = value
    with pytest.raises(ValueError, match=f"{name} .*{value[name]}"):
        LOSS(**value)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": package.label_smoothed_cross_entropy},
        {"loss": LOSS(), "metrics": [package.token_accuracy]},
    ],
)
def test_functions_that_return_sums_are_refused_by_fit(options):
    model = transformer()
    model.compile("sgd", **options)
    with pytest.raises(TypeError, match="LabelSmoothedCrossEntropy"):
        model.fit([IDS, IDS], IDS, verbose=0)


def test_training_as_the_second_positional_argument():
    model = transformer(rate=0.5)
    expected, _ = model(IDS, IDS)
    np.testing.assert_array_equal(model({"inp": IDS, "tar": IDS}, False)[0], expected)
    assert largest_difference(model([IDS, IDS], True)[0], expected) > 0.01


@pytest.mark.slow
def test_frozen_parts_and_compiled_state_survive_saving(tmp_path):
    """A new process needs only `import tf_transformer` to load them, before or after Keras."""
    path = tmp_path / "model.keras"
    model = transformer()
    model([IDS, IDS])
    model.encoder.trainable = False
    model.decoder.dec_layers[0].ffn.layers[0].trainable = False
    adam = keras.optimizers.Adam(package.CustomSchedule(D))
    model.compile(adam, LOSS(0.2), metrics=[package.TokenAccuracy()])
    model.fit([IDS, IDS], IDS, verbose=0)
    model.save(path)
    program = f"""
model = keras.models.load_model({str(path)!r})
print(len(model.trainable_variables), model.loss.label_smoothing, int(model.optimizer.iterations))
"""
    expected = f"{len(model.trainable_variables)} 0.2 1"
    for imports in (
        "import tf_transformer, keras",
        "from tf_transformer import Config; import keras",
        "from tf_transformer import PositionalEncoding; import keras",
    ):
        command = [sys.executable, "-c", imports + program]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.stdout.strip() == expected, result.stderr


@pytest.mark.parametrize("backend", ["jax", "numpy", ""])
def test_another_backend_of_keras(backend, monkeypatch):
    """None, for Keras too, is TensorFlow."""
    monkeypatch.setenv("KERAS_BACKEND", backend)
    command = [sys.executable, "-c", "from tf_transformer import Decoder"]
    result = subprocess.run(command, capture_output=True, text=True)
    expected = f"ImportError: the backend of Keras is '{backend}' in KERAS_BACKEND: unset it"
    assert result.returncode == bool(backend)
    assert not backend or result.stderr.strip().splitlines()[-1] == expected


def test_an_export_with_a_given_signature(tmp_path):
    model = transformer()
    logits, attention_weights = model(IDS, IDS)
    spec = tf.TensorSpec((None, 5), "int64")
    model.export(tmp_path / "export", input_signature=[spec, spec], verbose=False)
    loaded, ids = tf.saved_model.load(str(tmp_path / "export")), tf.cast(IDS, "int64")
    outputs = loaded.signatures["serving_default"](inp=ids, tar=ids)
    assert outputs.keys() == {"logits", *attention_weights}
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)


@pytest.mark.parametrize("is_built", [True, False])
def test_the_training_loop_of_the_tutorial_goes_on(is_built, tmp_path):
    """A run that was stopped has the weights of one that was not, to the last bit."""
    random = np.random.default_rng(2)
    batches = tf.constant(random.integers(1, V, (4, 3, 7)), tf.int64)

    def train(folder, first, last):
        model = transformer()
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
