"""Several models in one flag."""

import pytest

from tf_transformer.checkpoints.model_lists import first_model_dir, model_list
from tf_transformer.errors import UserError


def test_folders_and_checkpoints():
    assert model_list("a") == [("a", None)]
    assert model_list("a,b") == [("a", None), ("b", None)]
    assert model_list("a", "best,latest") == [("a", "best"), ("a", "latest")]
    assert model_list("a,b", "best") == [("a", "best"), ("b", "best")]
    assert model_list("a,b", "x,y") == [("a", "x"), ("b", "y")]
    assert first_model_dir("a,b") == "a"


def test_a_path_with_a_comma_is_one_model(tmp_path):
    folder = tmp_path / "a,b"
    folder.mkdir()
    file = folder / "c,d.npz"
    file.touch()
    assert model_list(str(folder), str(file)) == [(str(folder), str(file))]


@pytest.mark.parametrize("values", [("a,b", "x,y,z"), ("a,b,c", "x,y"), ("a,,b", None), ("a", ",")])
def test_numbers_that_do_not_fit_and_empty_names(values):
    with pytest.raises(UserError, match="--model_dir|--checkpoint"):
        model_list(*values)
