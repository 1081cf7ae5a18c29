"""Mistakes of the user: one clear line, exit code 2, and nothing is written."""

import os
import re
import shutil

import pytest

# A command line -> what the message must have. MODEL is a model folder, and HERE a folder with the
# files in.txt and short.
MISTAKES = [
    # The command line itself.
    ("trian", "did you mean train"),
    ("train now", "unexpected 'now'"),
    ("train --train_step=3", "Did you mean: train_steps .*`tf-transformer train --help`"),
    ("train --n_best=3", "no flag --n_best: it is for translate, rescore"),
    ("train --data=", "--data=: give a value"),
    ("train --seeds=1,2", r"--seeds is gone since 0.3 \(docs/upgrade.md\)"),
    ("evalb --gold=a --test=b", "the command evalb is gone since 0.3"),
    # train, average, compare and info.
    ("train --data=pocket-trees --model_dir=HERE/m", "give --source=words --target=trees"),
    ("train --model_dir=MODEL --overwrite --dry_run", "--overwrite and --dry_run: give one"),
    ("train --preset=tiny --learning_rate_scale=2", "--learning_rate_scale is for .*=noam"),
    # A run that was started with this flag can be resumed with it.
    ("train --preset=tiny --model_dir=MODEL --learning_rate_scale=2", "was started with"),
    ("train --model_dir=HERE/m --d_model=65536 --num_layers=100", "needs about .* GB .*--d_model"),
    ("average --model_dir=MODEL --last=3", "MODEL has 2 checkpoints"),
    ("compare", "--runs is missing"),
    ("compare MODEL MODEL --data=pocket", "--data is for --split"),
    ("info --model_dir=MODEL --preset=tiny", "--model_dir and --preset: give one of them"),
    # translate, score and parse.
    ("translate --model_dir=HERE/none", "no model folder HERE/none"),
    ("translate --model_dir=MODEL --input=/no/file", "cannot read /no/file"),
    ("translate --model_dir=MODEL --input=HERE/in.txt --output=HERE", "HERE: Is a directory"),
    ("translate --pairs", "--model_dir is missing"),
    ("translate --sampling --beam_size=2", "--sampling and --beam_size: give one of them"),
    ("translate --top_k=9", "--top_k is for --sampling"),
    ("translate --mbr=chrf --split_sentences", "--split_sentences and --mbr: give one of them"),
    ("translate --sampling --engine=ctranslate2", "--sampling is for --engine=tensorflow"),
    ("translate --compute_type=int8", "--compute_type is for --engine=ctranslate2"),
    ("translate --model_dir=HERE --engine=ctranslate2", "HERE holds no model"),
    ("translate --model_dir=MODEL,MODEL --engine=ctranslate2", "ensembles: give one model"),
    ("parse --model_dir=MODEL", "was not trained on trees"),
    # rescore.
    ("rescore --sources=HERE/in.txt", "give at least one model"),
    ("rescore --sources=HERE/in.txt --model_dir=MODEL --weights=1", "--weights=1: give 2 numbers"),
    ("rescore --sources=HERE/in.txt --model_dir=MODEL --reverse_tag=x", "for --reverse_model_dir"),
    # evaluate.
    ("evaluate --model_dir=MODEL,MODEL --checkpoint=a,b,c", "give one of them once, or as many"),
    ("evaluate --model_dir=MODEL --translations=HERE/short", "has 1 lines, .* 60 pairs: give one"),
    (
        "evaluate --model_dir=MODEL --translations=x --output=y",
        "--translations and --output: give one",
    ),
    # export and import.
    ("export --model_dir=MODEL --output=HERE/short/", r"HERE/short .*\(File exists\): choose"),
    ("export --model_dir=MODEL --format=ctranslate2 --keep_versions=1 --output=HERE/v", "HERE/v/1"),
    ("export --model_dir=MODEL --quantization=int8", "--quantization is for --format=ctranslate2"),
    ("export --model_dir=a,b --format=ctranslate2", "has no ensembles: give one model"),
    ("export --model_dir=a,b", "the folder for the export of the ensemble with --output"),
    # serve.
    ("serve --export_dir=HERE/none", "HERE/none is not a folder: export a model"),
    ("serve --port=0 --export_dir=HERE", "no version of transformer can be loaded: export a model"),
    ("serve --port=0 --model_dir=MODEL", "write one with `tf-transformer export --model_dir=MODEL"),
    ("serve --model_dir=HERE/none", "no model folder HERE/none.*built-in models: pocket-en-de"),
    ("serve --export_dir=HERE --model_dir=pocket-en-de", "--export_dir and --model_dir: give one"),
    ("serve --export_dir=HERE --name=a,b", "number of models: 1, names: a, b; give each"),
    ("serve --model_dir=MODEL,MODEL", "number of models: 2, names: .*; give each"),
    ("serve --host=192.0.2.1 --port=0", r"cannot listen at '192.0.2.1'"),
]


@pytest.fixture(scope="module")
def model(model_dir, tmp_path_factory):
    """A copy of the model without the exports of other tests."""
    path = tmp_path_factory.mktemp("model") / "model"
    shutil.copytree(model_dir, path, ignore=shutil.ignore_patterns("export", "evaluation"))
    return str(path)


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES, ids=[text for text, _ in MISTAKES])
def test_mistakes(refused, model, tmp_path, arguments, expected):
    files = {"in.txt": "Anna sleeps.\n", "short": "x\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    arguments, expected = (
        text.replace("MODEL", model).replace("HERE", str(tmp_path))
        for text in (arguments, expected)
    )
    assert re.search(expected, refused(*arguments.split()))
    assert set(os.listdir(tmp_path)) - {"m"} == set(files)  # m has the log of a run
    assert (tmp_path / "in.txt").read_text() == files["in.txt"]
