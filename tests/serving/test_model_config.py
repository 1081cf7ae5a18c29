"""The file of `serve --model_config_file`."""

from importlib import metadata

import pytest

from tf_transformer.errors import UserError
from tf_transformer.serving.model_config import read_model_config
from tf_transformer.serving.model_source import load_saved_model


@pytest.fixture
def read(tmp_path):
    """A function that reads a text as the file; the folder of "anna" has versions 1, 2 and 3."""
    for version in (1, 2, 3):
        (tmp_path / "anna" / str(version)).mkdir(parents=True)
    (tmp_path / "berta").mkdir()

    def read(text):
        path = tmp_path / "models.config"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return read_model_config(str(path))

    return read


def config(name="anna", platform="tensorflow", path="anna", more=""):
    fields = {"name": name, "base_path": path, "model_platform": platform}
    text = " ".join(f'{field}: "{value}"' for field, value in fields.items() if value)
    return f"config {{ {text} {more} }}"


def configs(*models):
    return "model_config_list {\n" + "\n".join(models) + "\n}\n"


def policy(text):
    return f"model_version_policy {{ {text} }}"


def test_models(read, tmp_path):
    labels = 'version_labels { key: "stable" value: 1 } version_labels { key: "new" value: 3 }'
    specific = policy("specific { versions: 3 versions: 1 }") + labels
    first, second = read(configs(config(more=specific), config("b", path=f"{tmp_path}/berta")))
    assert (first.name, first.folder) == ("anna", str(tmp_path / "anna"))
    assert (first.latest, first.specific) == (None, {1, 3})
    assert first.labels == {"stable": 1, "new": 3}
    assert (second.name, second.folder) == ("b", str(tmp_path / "berta"))
    assert (second.latest, second.specific, second.labels) == (1, frozenset(), {})


def test_platforms(read, monkeypatch):
    more = config("b", platform="ctranslate2")
    first, second = read(configs(config(), more))
    assert first.load is load_saved_model and second.load is not load_saved_model
    monkeypatch.setattr("tf_transformer.export.ctranslate2_translator.metadata.version", missing)
    assert len(read(configs(config()))) == 1
    with pytest.raises(UserError, match="the package ctranslate2 is missing"):
        read(configs(config(), more))


def missing(name):
    raise metadata.PackageNotFoundError(name)


@pytest.mark.parametrize(
    "text, latest",
    [("", 1), ("latest {}", 1), ("latest { num_versions: 2 }", 2), ("all {}", None)],
)
def test_policies(read, text, latest):
    (source,) = read(configs(config(more=policy(text))))
    assert (source.latest, source.specific) == (latest, frozenset())


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "models.config has no model"),
        ("model_config_list {\nconfig { nam: 'x' } }", 'line 2: .* has no field named "nam"'),
        ("model_config_list {\n\nconfig {", 'line 3: Expected "}"'),
        ("model_config_list {\nconfig { name: 3 } }", "line 2: .*Expected string"),
        ("\udcff", "it is not UTF-8 text"),
        (configs(config(name="")), r"models.config, config 1: name is missing"),
        (configs(config(name="a/b")), "config 1: name is 'a/b': give a name of letters"),
        (configs(config(), config()), "config 2: name 'anna' is that of another config already"),
        (configs(config(path="")), r"config 1 \(anna\): base_path is missing"),
        (configs(config(path="none")), r"base_path .*/none is not a folder"),
        (configs(config(platform="")), "model_platform is missing: write"),
        (configs(config(platform="torch")), "model_platform is 'torch': write"),
        (configs(config(more="logging_config {}")), "logging_config is not supported"),
        (configs(config(more=policy("specific {}"))), "specific has no versions"),
        (configs(config(more=policy("specific { versions: -1 }"))), "-1 in specific is not a"),
        (
            configs(config(more=policy("all {} latest {}"))),
            'line 2: Field "latest" is specified along with field "all"',
        ),
        (
            configs(config(more='version_labels { key: "old" value: 2 }')),
            r"the label 'old' is for version 2, .* \(it serves: 3\): give another version",
        ),
        (
            configs(config(more='version_labels { key: "a/b" value: 3 }')),
            "the label 'a/b' cannot be part of a URL",
        ),
        (
            configs(config(path="berta", more='version_labels { key: "x" value: 1 }')),
            r"\(it serves: none\)",
        ),
    ],
)
def test_mistakes(read, text, message):
    with pytest.raises(UserError, match=message) as error:
        read(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot read .*none: No such file or directory"):
        read_model_config(str(tmp_path / "none"))
    (tmp_path / "large").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(UserError, match="it has more than 1 MiB"):
        read_model_config(str(tmp_path / "large"))
