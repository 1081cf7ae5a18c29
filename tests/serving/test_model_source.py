"""The version policies."""

import pytest

from tf_transformer.errors import UserError
from tf_transformer.serving.model_source import ModelSource, one_model

FOLDER = [5, 3, 1]


@pytest.mark.parametrize(
    "policy, wanted",
    [
        ({}, [5]),
        ({"latest": 2}, [5, 3]),
        ({"latest": 9}, [5, 3, 1]),
        ({"latest": None}, [5, 3, 1]),
        ({"latest": None, "specific": frozenset({1, 3})}, [3, 1]),
        ({"latest": None, "specific": frozenset({1, 4})}, [4, 1]),  # 4 is reported as missing
    ],
)
def test_policies(policy, wanted):
    assert ModelSource("anna", "x", **policy).wanted(FOLDER) == wanted


def test_versions_that_cannot_be_loaded_are_replaced_by_older_ones():
    assert ModelSource("anna", "x").wanted(FOLDER, [], [5]) == [3]
    assert ModelSource("anna", "x", latest=2).wanted(FOLDER, [], [3]) == [5, 1]
    specific = ModelSource("anna", "x", latest=None, specific=frozenset({1, 4}))
    assert specific.wanted(FOLDER, [], [4]) == [1]


@pytest.mark.parametrize(
    "policy, in_folder, served, wanted",
    [
        ({}, [1], [2], [2]),  # no older version is loaded
        ({}, [], [2], [2]),
        ({}, [3], [2], [3]),
        ({"latest": 2}, [1, 2, 4], [3, 4], [4, 3]),
        ({"latest": 2}, [5], [3, 4], [5, 4]),
        ({"latest": None}, [1], [1, 2, 3], [3, 1]),
        ({"latest": None}, [1, 4], [1, 2, 3], [4, 3, 1]),
        ({"latest": None, "specific": frozenset({1})}, [], [1], [1]),
    ],
)
def test_served_versions_whose_folder_was_removed(policy, in_folder, served, wanted):
    assert ModelSource("anna", "x", **policy).wanted(in_folder, served) == wanted


def test_one_model(tmp_path):
    (source,) = one_model(str(tmp_path), "anna")
    assert (source.name, source.folder, source.latest) == ("anna", str(tmp_path), 1)
    with pytest.raises(UserError, match="missing is not a folder: export a model"):
        one_model(str(tmp_path / "missing"), "anna")
    with pytest.raises(UserError, match="--name is 'a/b'"):
        one_model(str(tmp_path), "a/b")
