"""XLA beside the updates of a run: how many shapes it compiles, and what it cannot compile."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import sentences
from training_runs import assert_unchanged, values_of

from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.training import compilation
from tf_transformer.training.compilation import ShapeCompiler, most_shapes
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.trainer import build_trainer
from tf_transformer.training.update import Update


@pytest.mark.parametrize(("settings", "shapes"), [
    ({}, 12),  # the paper's run
    ({"train_steps": 2000}, 4),
    ({"train_steps": 300}, 3),
    ({"train_minutes": 1.0}, 3),
    ({"train_steps": 1}, 3),
])  # fmt: skip
def test_a_longer_run_has_more_shapes(settings, shapes):
    assert most_shapes(Config().replace(**settings)) == shapes


@pytest.mark.parametrize("accumulate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_shape_is_compiled_beside_updates(accumulate):
    """To compile changes nothing; an update is the same with XLA as without, but for rounding."""
    settings = dict(
        num_layers=1, d_model=16, num_heads=2, dff=32, dropout_rate=0.1, warmup_steps=4,
        max_length=8, micro_batch_tokens=16,
    )  # fmt: skip
    config = Config().with_vocabularies(60, 60).replace(**settings)
    update = Update(config, "mixed_float16", make_strategy(1), accumulate, jit_compile=True)
    batch = tuple(map(tf.constant, (sentences(8, 4, 1), sentences(8, 4, 2, start=True))))
    update(*batch, tf.zeros([2]), compiled=False)
    before = values_of(update)
    compiler = ShapeCompiler(update, [Bucket(0, 4, 8, 1, 8)], replicas=1, wait=True)
    assert compiler.is_compiled(8, 4)
    compiler.close()
    assert_unchanged(update, before)
    results = []
    for compiled in (False, True):  # of the same step
        variables = [*update.model.variables, *update.optimizer.variables]
        for variable, value in zip(variables, before[0]):
            variable.assign(value)
        results.append(update(*batch, tf.zeros([2]), compiled=compiled))
    np.testing.assert_allclose(results[0]["sums"], results[1]["sums"], rtol=1e-3)
    np.testing.assert_allclose(*(x["gradient_norm"] for x in results), rtol=5e-3)


class FakeUpdate:
    """An update that is compiled when it is allowed to be; a shape of length 9 never is."""

    def __init__(self):
        self.allowed = threading.Event()

    def compile(self, bucket):
        assert self.allowed.wait(600)
        if bucket.length == 9:
            raise tf.errors.InternalError(
                None, None, "Autotuner could not compile any configs for HLO: %fusion\nmore"
            )


BUCKETS = [Bucket(0, 5, 20, 3, 60), Bucket(5, 9, 16, 7, 112)]


@pytest.mark.parametrize("wait", [False, True])
def test_updates_do_not_wait(monkeypatch, wait):
    """They run without XLA until their shape is compiled. Where they wait, a stop ends it."""
    monkeypatch.setattr(compilation, "number_of_cores", lambda: 2)  # with one, they wait
    update = FakeUpdate()
    compiler = ShapeCompiler(update, BUCKETS, replicas=1, wait=wait)
    assert not any(compiler.is_compiled(each.rows, each.length, lambda: wait) for each in BUCKETS)
    update.allowed.set()
    compiler.close()


def test_memory_that_is_short_beside_other_shapes():
    """A shape for which there was none is tried again, alone."""

    class Short:
        tries = 0

        def compile(self, bucket):
            self.tries += 1
            if self.tries == 1:
                raise tf.errors.ResourceExhaustedError(None, None, "no memory")

    update = Short()
    compiler = ShapeCompiler(update, BUCKETS[:1], replicas=1, wait=True)
    assert compiler.is_compiled(20, 5) and update.tries == 2
    compiler.close()


def test_a_shape_that_cannot_be_compiled(caplog):
    """It is computed without XLA, and one line names it and the cause."""
    update = FakeUpdate()
    update.allowed.set()
    compiler = ShapeCompiler(update, BUCKETS, replicas=1, wait=True)
    assert compiler.is_compiled(20, 5) and not compiler.is_compiled(16, 9)
    compiler.close()
    warnings = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert warnings == [
        "XLA cannot compile updates of 16 x 9 ids, which run without it: InternalError: Autotuner "
        "could not compile any configs for HLO: %fusion"
    ]


def test_a_run_goes_on_without_xla(tiny_config, tmp_path, monkeypatch, caplog):
    """Where a compilation or a compiled update fails, the losses are those of a run without XLA."""

    def fail():
        raise tf.errors.InternalError(None, None, "no configs")

    def fail_to_compile(_, bucket):
        tried.append(bucket)
        fail()

    def update(self, *batch, compiled):
        if compiled:
            self.optimizer.iterations.assign_add(1)  # may have run before the error
            fail()
        return call(self, *batch, compiled=compiled)

    call, losses, warnings, tried = Update.__call__, [], [], []
    monkeypatch.setattr(Update, "__call__", update)
    settings = {"train_steps": 3, "log_steps": 1, "bleu_sentences": 0, "max_shapes": 3}
    for jit_compile, compile_shape in (
        ("off", None),
        ("on", fail_to_compile),
        ("on", lambda *_: None),
    ):
        monkeypatch.setattr(Update, "compile", compile_shape)
        config = tiny_config.replace(**settings, jit_compile=jit_compile)
        trainer = build_trainer(config, str(tmp_path / str(len(losses))))
        assert trainer.run()
        losses.append(trainer.validate()["loss"])
        warnings.append(sum("XLA cannot compile updates of" in text for text in caplog.messages))
        caplog.clear()
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    shapes = len(trainer.train_batches.buckets)
    # At its end, a run drops the shapes that it has not begun to compile.
    assert warnings[:2] == [0, len(tried)] and 1 <= len(tried) <= shapes
    assert 1 <= warnings[2] <= shapes
