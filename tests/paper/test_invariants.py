"""The nine laws on a model folder: all hold on a sound model, and each turns red on a model that breaks it."""

import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tf_transformer
from tf_transformer.checkpoints import checkpoint
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding import kv_cache, search
from tf_transformer.errors import UserError
from tf_transformer.model import masks
from tf_transformer.paper import invariants


@pytest.fixture
def case(model_dir, tmp_path):
    return invariants.make_case(str(model_dir), None, str(tmp_path))


def judge(invariant, case):
    return invariants.judge(1 + invariants.INVARIANTS.index(invariant), invariant, case)


def assert_broken(invariant, case, measured):
    found = judge(invariant, case)
    assert found.holds is False and re.search(measured, found.measured), found


def test_all_nine_hold(model_dir):
    before = {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")}
    found = invariants.check_invariants(str(model_dir))
    assert [(invariant.number, invariant.holds) for invariant in found] == [
        (number, True) for number in range(1, 10)
    ], found
    assert found[1].measured.endswith("; 12 of 12 translations are the same")
    assert re.search(r"update \d+, gone on to \d+: (\d+) of \1 arrays", found[6].measured), found[6]
    assert {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")} == before, (
        "the model folder was changed"
    )
    assert len(repr(found).splitlines()) == 9 and repr(found).startswith(
        "1  padding     ✓ holds      "
    )


def test_texts_of_ones_own(model_dir, tmp_path):
    case = invariants.make_case(
        str(model_dir), ["Anna sleeps.", "  ", "The dog sees the cat."], str(tmp_path)
    )
    assert case.texts == ["Anna sleeps.", "The dog sees the cat."] and case.inp.shape[0] == 2
    for invariant in (
        invariants.padding,
        invariants.batch_independence,
        invariants.causality,
        invariants.cache,
        invariants.search,
        invariants.round_trip,
    ):
        assert judge(invariant, case).holds is True
    with pytest.raises(UserError, match="no text"):
        invariants.make_case(str(model_dir), [" "], str(tmp_path))
    with pytest.raises(UserError, match="more than 95 sub-words"):
        invariants.make_case(str(model_dir), ["x " * 200], str(tmp_path))


def test_red_without_padding_masks(case, monkeypatch):
    monkeypatch.setattr(
        masks,
        "create_padding_mask",
        lambda seq: tf.zeros([tf.shape(seq)[0], 1, 1, tf.shape(seq)[1]]),
    )
    assert_broken(invariants.padding, case, "logits differ by")
    assert_broken(invariants.batch_independence, case, "logits differ by")


def test_red_where_sentences_see_each_other(case, monkeypatch):
    """A translation that depends on the batch: the model itself is sound."""
    encode = Tokenizer.encode
    monkeypatch.setattr(
        Tokenizer, "encode", lambda self, texts: encode(self, [max(texts, key=len)] * len(texts))
    )
    assert_broken(invariants.batch_independence, case, "differ by .*; [0-9] of 12 translations")


def test_red_without_a_look_ahead_mask(case, monkeypatch):
    monkeypatch.setattr(masks, "create_look_ahead_mask", lambda size: tf.zeros((size, size)))
    assert_broken(invariants.causality, case, "earlier logits differ by")
    assert_broken(invariants.cache, case, "log-probabilities of 12 translations differ")


def test_red_where_the_target_says_nothing(case, monkeypatch):
    """A decoder that does not look at its input keeps the past from the future, but is none."""
    monkeypatch.setattr(
        case.model, "decoder_output", lambda inp, tar, *_: (tf.zeros([*tar.shape, 32]), {})
    )
    assert_broken(invariants.causality, case, r"differ by 0 \(must be 0\), later ones by 0 or more")


def test_red_where_a_step_forgets(case, monkeypatch):
    write_slots = kv_cache.write_slots
    monkeypatch.setattr(
        kv_cache,
        "write_slots",
        lambda x, new, slot: write_slots(x, tf.zeros_like(new), slot),
    )
    assert_broken(invariants.cache, case, "log-probabilities of 12 translations differ")


def test_red_where_a_beam_loses_its_parents(case, monkeypatch):
    extend_beam = search._extend_beam
    monkeypatch.setattr(
        search,
        "_extend_beam",
        lambda *rest: (beam := extend_beam(*rest))._replace(
            beam_indices=tf.zeros_like(beam.beam_indices)
        ),
    )
    assert_broken(
        invariants.search,
        case,
        "a beam of 1 agree; a beam of 64 against all 40 outputs .* differ by",
    )


def test_red_where_greedy_is_not_greedy(case, monkeypatch):
    monkeypatch.setattr(
        laws,
        "greedy_search",
        lambda step, state, limits, alpha: search.beam_search(step, state, limits - 2, 1, alpha),
    )
    assert_broken(invariants.search, case, "a beam of 1 differ")


BUGS = {
    "training/train_step.py": (
        "gradients = loss_scale.unscale(gradients)",
        "gradients = [g * tf.cast(tf.size(replica_tokens), g.dtype) for g in gradients]",
    ),
    "training/run_directory.py": (
        "checkpoint.restore(paths[-1], model, optimizer)",
        "checkpoint.restore(paths[-1], model)",
    ),
}  # fmt: skip


def test_red_with_bugs_in_training(case, tmp_path, monkeypatch):
    """A copy of the package whose gradients grow with the replicas, and whose runs go on without Adam's means."""
    shutil.copytree(
        pathlib.Path(tf_transformer.__file__).parent, tmp_path / "bad" / "tf_transformer"
    )
    for name, (right, wrong) in BUGS.items():
        path = tmp_path / "bad" / "tf_transformer" / name
        code = path.read_text("utf-8")
        assert code.count(right) == 1
        path.write_text(code.replace(right, wrong), "utf-8")
    monkeypatch.chdir(tmp_path / "bad")
    assert_broken(
        invariants.replicas, case, "6 updates by 1 and by 2 replicas: .* lengths of gradients by"
    )
    assert_broken(invariants.resume, case, r"gone on to \d+: \d+ of \d+ arrays")


def test_red_where_another_model_is_exported(case):
    for variable in case.model.trainable_variables:
        variable.assign(variable * 1.01)
    assert_broken(invariants.export, case, "scores differ by")


def test_red_where_text_is_lost(case, monkeypatch):
    decode = Tokenizer.decode
    monkeypatch.setattr(
        Tokenizer,
        "decode",
        lambda self, ids: tf.strings.regex_replace(decode(self, ids), "the ", ""),
    )
    assert_broken(invariants.round_trip, case, r"[1-9]\d* of 30 texts changed, such as '")


def test_red_where_a_weight_is_not_saved(case, monkeypatch):
    save = checkpoint.save

    def forgetful(path, model, *rest):
        variable = model.trainable_variables[3]
        value = variable.numpy()
        variable.assign(value * 2)
        save(path, model, *rest)
        variable.assign(value)

    monkeypatch.setattr(checkpoint, "save", forgetful)
    number = len(case.model.trainable_variables)
    assert_broken(
        invariants.round_trip,
        case,
        f"{number - 1} of {number} weights saved and loaded are the same",
    )


def test_what_cannot_be_checked_is_neither_green_nor_red(case, tmp_path, monkeypatch):
    """No checkpoint that a run could go on from, and no text for a training."""
    shutil.copytree(case.folder, tmp_path / "model", ignore=shutil.ignore_patterns("step-*"))
    found = judge(invariants.replicas, case._replace(folder=str(tmp_path / "model")))
    assert found.holds is None and "no checkpoint 'latest'" in found.measured
    found = judge(invariants.resume, case._replace(config=case.config.replace(data="/no/where")))
    assert found.holds is None and "no such data folder or file: /no/where" in found.measured


def test_an_error_is_red_and_the_table_says_all_in_words(case, monkeypatch):
    monkeypatch.setattr(type(case.model), "call", lambda *rest, **named: 1 / 0)
    found = invariants.Invariants(
        [
            judge(invariants.padding, case),
            invariants.Invariant(2, "batch independence", True, "<b>"),
            invariants.Invariant(3, "causality", None, ""),
        ]
    )
    assert found[0].holds is False and found[0].measured.startswith("ZeroDivisionError")
    table = found._repr_html_()
    assert [word in table for word in ("✗ broken", "✓ holds", "? not checked", "&lt;b&gt;")] == [
        True
    ] * 4 and "<b>" not in table
    assert np.all([word in repr(found) for word in ("✗ broken", "✓ holds", "? not checked")])
