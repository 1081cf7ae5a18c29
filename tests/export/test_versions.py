"""The folders of versions, and the names of models."""

import os

import pytest

from tf_transformer.errors import UserError
from tf_transformer.export.versions import check_model_name, find_versions, remove_old_versions


def make_version(folder, name):
    path = folder / str(name)
    path.mkdir()
    (path / "saved_model.pb").write_text("model")
    (path / "variables").mkdir()
    return str(path)


def test_versions_are_numbers_that_may_have_leading_zeros(tmp_path):
    for name in ("2", "10", "03", "x", "1.5", "-1", "²", ".4", str(2**63 - 1), str(2**63)):
        (tmp_path / name).mkdir()
    (tmp_path / "7").write_text("no folder")
    (tmp_path / "8").symlink_to(tmp_path / "removed")
    (tmp_path / "9").symlink_to(tmp_path / "2")
    found = find_versions(str(tmp_path))
    assert list(found) == [2**63 - 1, 10, 9, 3, 2]
    assert found[3] == str(tmp_path / "03")
    assert find_versions(str(tmp_path / "missing")) == {}


@pytest.mark.parametrize(
    ("versions", "keep", "left"), [([1, 2, 9, 10, 11], 2, ["10", "11"]), ([1, 3, 2], 1, ["2", "3"])]
)
def test_the_oldest_versions_are_removed(tmp_path, versions, keep, left):
    """The new version stays when there is a newer one."""
    *_, new = [make_version(tmp_path, version) for version in versions]
    for _ in range(2):
        remove_old_versions(str(tmp_path), keep, new)
        assert sorted(os.listdir(tmp_path)) == left


def test_what_is_not_a_version_stays(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "1999").mkdir()
    (folder / "1999" / "photo.jpg").write_text("kept")
    (folder / "models.config").write_text("kept")
    (folder / "5").write_text("a file")
    (folder / "6").symlink_to(make_version(elsewhere, 6))
    make_version(folder, "007")
    make_version(folder, 3)
    new = make_version(folder, 4)
    remove_old_versions(str(folder), 1, new)
    assert sorted(os.listdir(folder)) == ["007", "1999", "4", "5", "6", "models.config"]
    assert (elsewhere / "6" / "saved_model.pb").exists()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a:b", "é", "a\n"])
def test_model_names_that_are_refused(name):
    check_model_name("wmt14_en-de.v2")
    with pytest.raises(UserError, match="--name is"):
        check_model_name(name)
