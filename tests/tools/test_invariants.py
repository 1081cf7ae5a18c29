"""tools/invariants.py: all nine hold for a sound model, and each is broken by a bug."""

import pathlib
import re
import shutil

import invariants
import pytest
import tensorflow as tf

import tf_transformer
from tf_transformer.checkpoints import checkpoint
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding import beam_search, kv_cache
from tf_transformer.errors import UserError
from tf_transformer.model import masks, transformer

TRANSLATIONS = "12 of 12 translations are the same"


@pytest.fixture
def case(model_dir, tmp_path):
    return invariants.make_case(str(model_dir), None, str(tmp_path))


def check(invariant, case):
    return invariants.check(1 + invariants.INVARIANTS.index(invariant), case)


def assert_broken(invariant, case, measured):
    result = check(invariant, case)
    assert result.holds is False, result
    assert re.search(measured, result.measured), result


@pytest.mark.slow
def test_all_nine_hold(model_dir, monkeypatch, capsys):
    times = {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")}
    monkeypatch.setattr("sys.argv", ["invariants.py", str(model_dir)])
    invariants.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:35].split("  ")[0] for line in lines] == [str(n) for n in range(1, 10)]
    assert all("  holds  " in line for line in lines), lines
    assert lines[1].endswith(f"; {TRANSLATIONS}")
    assert re.search(r"update \d+, resumed until \d+: (\d+) of \1 arrays", lines[6])
    # The model folder is not changed.
    assert {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")} == times


def test_users_texts(model_dir, tmp_path):
    texts = ["Anna sleeps.", "  ", "The dog sees the cat."]
    case = invariants.make_case(str(model_dir), texts, str(tmp_path))
    assert case.texts == ["Anna sleeps.", "The dog sees the cat."]
    assert case.inp.shape[0] == 2
    slow = (invariants.replicas, invariants.resume, invariants.export)
    for invariant in set(invariants.INVARIANTS) - set(slow):
        assert check(invariant, case).holds is True
    with pytest.raises(UserError, match="no text"):
        invariants.make_case(str(model_dir), [" "], str(tmp_path))
    with pytest.raises(UserError, match="more than 95 sub-words"):
        invariants.make_case(str(model_dir), ["x " * 200], str(tmp_path))


def without_padding(monkeypatch, case):
    def mask(seq):
        return tf.zeros_like(seq, tf.float32)[:, tf.newaxis, tf.newaxis]

    for module in (masks, transformer):
        monkeypatch.setattr(module, "create_padding_mask", mask)


def without_look_ahead(monkeypatch, case):
    monkeypatch.setattr(masks, "create_look_ahead_mask", lambda size: tf.zeros((size, size)))


def without_writing_the_cache(monkeypatch, case):
    make_decode_step = kv_cache.make_decode_step

    def forgetful(*arguments):
        step, state = make_decode_step(*arguments)

        def forgetful_step(*arguments):
            logits, state = step(*arguments)
            zeros = tf.nest.map_structure(tf.zeros_like, state.target)
            return logits, state._replace(target=zeros)

        return forgetful_step, state

    monkeypatch.setattr(kv_cache, "make_decode_step", forgetful)


def without_beam_indices(monkeypatch, case):
    extend_beam = beam_search.extend_beam

    def extend(*arguments):
        beam = extend_beam(*arguments)
        return beam._replace(beam_indices=tf.zeros_like(beam.beam_indices))

    monkeypatch.setattr(beam_search, "extend_beam", extend)


def without_articles(monkeypatch, case):
    decode = Tokenizer.decode

    def decode_without(self, ids):
        return tf.strings.regex_replace(decode(self, ids), "the ", "")

    monkeypatch.setattr(Tokenizer, "decode", decode_without)


def with_an_error(monkeypatch, case):
    monkeypatch.setattr(case.model, "decoder_output", None)


BUGS = [
    (without_padding, "padding", "logits differ by"),
    (without_look_ahead, "causality", "earlier logits differ by"),
    (without_articles, "round_trip", r"[1-9]\d* of 30 texts changed, such as '"),
    (with_an_error, "padding", "^TypeError"),  # an error counts as broken
]
BUGS_IN_TRANSLATION = [
    (without_padding, "batch_independence", "logits differ by"),
    (without_writing_the_cache, "cache", "log-probabilities of 12 translations differ"),
    (without_beam_indices, "search", "a beam of 64 against all 40 outputs .* differ by"),
]
SLOW = [pytest.param(*bug, marks=pytest.mark.slow) for bug in BUGS_IN_TRANSLATION]


@pytest.mark.parametrize(("bug", "name", "measured"), [*BUGS, *SLOW])
def test_broken(case, monkeypatch, bug, name, measured):
    bug(monkeypatch, case)
    assert_broken(getattr(invariants, name), case, measured)


# File -> correct code, code with a bug: gradients grow with the number of replicas, and a resumed
# run loses Adam's moments.
BUGS_IN_TRAINING = {
    "training/update.py": (
        "gradients = self.loss_scale.unscale(gradients)",
        "gradients = [g * tf.cast(tf.size(replica_tokens), g.dtype) for g in gradients]",
    ),
    "training/run_directory.py": (
        "checkpoint.restore(path, model, optimizer)",
        "checkpoint.restore(path, model)",
    ),
}


@pytest.mark.slow
def test_broken_with_bugs_in_training(case, tmp_path, monkeypatch):
    """The processes that train use a copy of the package with bugs."""
    copy = tmp_path / "copy" / "tf_transformer"
    shutil.copytree(pathlib.Path(tf_transformer.__file__).parent, copy)
    for name, (correct, wrong) in BUGS_IN_TRAINING.items():
        code = (copy / name).read_text("utf-8")
        assert code.count(correct) == 1
        (copy / name).write_text(code.replace(correct, wrong), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    measured = "6 updates by 1 and by 2 replicas: .* gradient norms by"
    assert_broken(invariants.replicas, case, measured)
    assert_broken(invariants.resume, case, r"resumed until \d+: \d+ of \d+ arrays")


@pytest.mark.slow
def test_broken_where_another_model_is_exported(case):
    for variable in case.model.trainable_variables:
        variable.assign(variable * 1.01)
    assert_broken(invariants.export, case, "scores differ by")


def test_broken_where_a_weight_is_not_saved(case, monkeypatch):
    save = checkpoint.save

    def save_wrong_weight(path, model, *rest):
        variable = model.trainable_variables[3]
        value = variable.numpy()
        variable.assign(value * 2)
        save(path, model, *rest)
        variable.assign(value)

    monkeypatch.setattr(checkpoint, "save", save_wrong_weight)
    number = len(case.model.trainable_variables)
    measured = f"{number - 1} of {number} weights saved and loaded are the same"
    assert_broken(invariants.round_trip, case, measured)


@pytest.mark.slow
def test_invariants_that_cannot_be_checked(case, tmp_path):
    """Without a checkpoint to resume from, or without the training text."""
    folder = str(tmp_path / "model")
    shutil.copytree(case.folder, folder, ignore=shutil.ignore_patterns("step-*"))
    result = check(invariants.replicas, case._replace(folder=folder))
    assert result.holds is None
    assert "no checkpoint 'latest'" in result.measured
    result = check(invariants.resume, case._replace(config=case.config.replace(data="/no/where")))
    assert result.holds is None
    assert "no such data folder or file: /no/where" in result.measured
