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
from tf_transformer.model import masks

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
    without_training = [
        invariants.padding,
        invariants.batch_independence,
        invariants.causality,
        invariants.cache,
        invariants.search,
        invariants.round_trip,
    ]
    for invariant in without_training:
        assert check(invariant, case).holds is True
    with pytest.raises(UserError, match="no text"):
        invariants.make_case(str(model_dir), [" "], str(tmp_path))
    with pytest.raises(UserError, match="more than 95 sub-words"):
        invariants.make_case(str(model_dir), ["x " * 200], str(tmp_path))


def test_broken_without_padding_masks(case, monkeypatch):
    def no_padding_mask(seq):
        return tf.zeros([tf.shape(seq)[0], 1, 1, tf.shape(seq)[1]])

    monkeypatch.setattr(masks, "create_padding_mask", no_padding_mask)
    assert_broken(invariants.padding, case, "logits differ by")
    assert_broken(invariants.batch_independence, case, "logits differ by")


def test_broken_where_translations_depend_on_the_batch(case, monkeypatch):
    """The model itself is sound."""
    encode = Tokenizer.encode

    def encode_longest(self, texts):
        return encode(self, [max(texts, key=len)] * len(texts))

    monkeypatch.setattr(Tokenizer, "encode", encode_longest)
    assert_broken(invariants.batch_independence, case, "differ by .*; [0-9] of 12 translations")


def test_broken_without_a_look_ahead_mask(case, monkeypatch):
    monkeypatch.setattr(masks, "create_look_ahead_mask", lambda size: tf.zeros((size, size)))
    assert_broken(invariants.causality, case, "earlier logits differ by")
    assert_broken(invariants.cache, case, "log-probabilities of 12 translations differ")


def test_broken_where_the_decoder_ignores_the_target(case, monkeypatch):
    """Such a decoder does not see later tokens, but it does not see earlier ones either."""

    def ignore_target(inp, tar, *_):
        return tf.zeros([*tar.shape, 32]), {}

    monkeypatch.setattr(case.model, "decoder_output", ignore_target)
    measured = r"differ by 0 \(must be 0\), later ones by 0 or more"
    assert_broken(invariants.causality, case, measured)


def test_broken_where_the_cache_is_not_written(case, monkeypatch):
    make_decode_step = kv_cache.make_decode_step

    def forgetful(*arguments):
        step, state = make_decode_step(*arguments)

        def forgetful_step(*arguments):
            logits, state = step(*arguments)
            zeros = tf.nest.map_structure(tf.zeros_like, state.target)
            return logits, state._replace(target=zeros)

        return forgetful_step, state

    monkeypatch.setattr(kv_cache, "make_decode_step", forgetful)
    assert_broken(invariants.cache, case, "log-probabilities of 12 translations differ")


def test_broken_where_beam_indices_are_lost(case, monkeypatch):
    extend_beam = beam_search.extend_beam

    def without_indices(*arguments):
        beam = extend_beam(*arguments)
        return beam._replace(beam_indices=tf.zeros_like(beam.beam_indices))

    monkeypatch.setattr(beam_search, "extend_beam", without_indices)
    measured = "a beam of 1 agree; a beam of 64 against all 40 outputs .* differ by"
    assert_broken(invariants.search, case, measured)


def test_broken_where_greedy_search_stops_early(case, monkeypatch):
    def short_search(problem):
        shorter = problem._replace(max_lengths=problem.max_lengths - 2)
        return beam_search.beam_search(shorter, 1)

    monkeypatch.setattr(invariants, "greedy_search", short_search)
    assert_broken(invariants.search, case, "a beam of 1 differ")


# File -> correct code, code with a bug: gradients grow with the number of replicas, and a resumed
# run loses Adam's moments.
BUGS = {
    "training/update.py": (
        "gradients = self.loss_scale.unscale(gradients)",
        "gradients = [g * tf.cast(tf.size(replica_tokens), g.dtype) for g in gradients]",
    ),
    "training/run_directory.py": (
        "checkpoint.restore(path, model, optimizer)",
        "checkpoint.restore(path, model)",
    ),
}


def test_broken_with_bugs_in_training(case, tmp_path, monkeypatch):
    """The processes that train use a copy of the package with bugs."""
    copy = tmp_path / "copy" / "tf_transformer"
    shutil.copytree(pathlib.Path(tf_transformer.__file__).parent, copy)
    for name, (correct, wrong) in BUGS.items():
        code = (copy / name).read_text("utf-8")
        assert code.count(correct) == 1
        (copy / name).write_text(code.replace(correct, wrong), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    measured = "6 updates by 1 and by 2 replicas: .* gradient norms by"
    assert_broken(invariants.replicas, case, measured)
    assert_broken(invariants.resume, case, r"resumed until \d+: \d+ of \d+ arrays")


def test_broken_where_another_model_is_exported(case):
    for variable in case.model.trainable_variables:
        variable.assign(variable * 1.01)
    assert_broken(invariants.export, case, "scores differ by")


def test_broken_where_text_is_lost(case, monkeypatch):
    decode = Tokenizer.decode

    def decode_without_articles(self, ids):
        return tf.strings.regex_replace(decode(self, ids), "the ", "")

    monkeypatch.setattr(Tokenizer, "decode", decode_without_articles)
    assert_broken(invariants.round_trip, case, r"[1-9]\d* of 30 texts changed, such as '")


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


def test_an_error_counts_as_broken(case, monkeypatch):
    def divide_by_zero(model, inp, tar=None, training=False):
        return 1 / 0

    monkeypatch.setattr(type(case.model), "call", divide_by_zero)
    result = check(invariants.padding, case)
    assert result.holds is False
    assert result.measured.startswith("ZeroDivisionError")
