"""Notebook C: each broken file has one bug, and the invariants find it."""

import pytest
from course import broken_files, file_invariants
from course.blanks import SOLUTION
from course.broken_files import BUGS


def test_each_file_differs_from_the_complete_one_in_one_place(tmp_path):
    complete = SOLUTION.read_text("utf-8")
    for number, path in broken_files.write(tmp_path).items():
        bug = BUGS[number]
        assert path.read_text("utf-8").replace(bug.new, bug.old) == complete


def test_lines_that_are_not_in_the_file_are_an_error(monkeypatch):
    missing = BUGS[1]._replace(old="no such line\n")
    monkeypatch.setitem(BUGS, 1, missing)
    with pytest.raises(ValueError, match="bug 1 0x"):
        broken_files.text_of(1)


def test_every_invariant_finds_a_bug():
    assert {name for bug in BUGS.values() for name in bug.breaks} == {*file_invariants.INVARIANTS}


def test_the_complete_file_breaks_no_invariant():
    assert not file_invariants.broken(broken_files.load(SOLUTION))


@pytest.mark.slow
@pytest.mark.parametrize("number", BUGS)
def test_invariants_find_the_bug(number, tmp_path):
    file = broken_files.load(broken_files.write(tmp_path)[number])
    assert file_invariants.broken(file) == sorted(
        BUGS[number].breaks, key=list(file_invariants.INVARIANTS).index
    )
