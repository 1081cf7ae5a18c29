"""The commands train and average."""

import json

from training_runs import losses

from tf_transformer.config import Config


def test_the_settings_of_a_run_repeat_it(succeed, model_dir, tmp_path):
    """The losses are the same in another folder. A flag has another value, also of a vocabulary."""
    flags = ["--train_steps=2", "--log_steps=1", "--bleu_sentences=0"]
    first, again, other = tmp_path / "first", tmp_path / "again", tmp_path / "other"
    start = f"--config={model_dir}/config.json", f"--model_dir={first}", "--noshared_vocab"
    succeed("train", *start, *flags)
    repeat = "train", f"--config={first}/config.json"
    succeed(*repeat, f"--model_dir={again}")
    assert len(losses(first)) > 2 and losses(again) == losses(first)
    assert Config.load(f"{again}/config.json") == Config.load(f"{first}/config.json")
    succeed(*repeat, f"--model_dir={other}", "--seed=5", "--shared_vocab")
    changed = Config.load(f"{other}/config.json")
    assert changed.train.seed == 5 and changed.data.shared_vocab and changed.model.shared_embeddings
    assert losses(other) != losses(first)


def test_a_file_without_settings_is_refused(refused, tmp_path):
    path = tmp_path / "my.json"
    command = "train", f"--config={path}"
    assert f"{path}: No such file" in refused(*command)
    path.write_text(json.dumps({"model": {}}))
    assert f"{path}: not a configuration of tf-transformer" in refused(*command)
    assert "--config and --preset: give one of them" in refused(*command, "--preset=tiny")


def test_average(run, model_dir, tmp_path):
    for number, (flags, checkpoints) in enumerate([
        ([], "step-00000012.npz"),  # the last eighth of the updates
        (["--last=2"], "step-00000008.npz, step-00000012.npz"),
        (["--best=1"], "step-00000012.npz"),  # the only one with a validation score
    ]):  # fmt: skip
        output = tmp_path / f"{number}.npz"
        code, out, _ = run("average", f"--model_dir={model_dir}", f"--output={output}", *flags)
        assert (code, out) == (0, f"averaged {checkpoints} into {output}\n")
        assert output.exists()
