"""The output of the client: what is done is kept, and the same command continues after it."""

import json
import os

import pytest
from serving.scripted_server import scripted_server, translated

from tf_transformer.cli import partial_output
from tf_transformer.cli.partial_output import PartialOutput
from tf_transformer.errors import UserError
from tf_transformer.serving import client as serving_client

LINES = [f"line {number}" for number in range(12)]


class Job:
    """Runs the client on a file of lines, with a server that answers some requests.

    Attributes:
      requests: the texts of all requests.
      fail_at: the line whose request is refused, or that raises `interrupt`; None for none.
    """

    def __init__(self, run, folder, address):
        self._run = run
        self.input = folder / "in.txt"
        self.output = folder / "out.txt"
        self.partial = folder / "out.txt.partial"
        self.address = address
        self.requests = []
        self.fail_at = None
        self.write_input(LINES)

    def answer(self, texts):
        self.requests.append(texts)
        return (400, {"error": "bad"}) if self.fail_at in texts else translated(texts)

    def write_input(self, lines):
        self.input.write_text("".join(f"{line}\n" for line in lines))

    def run(self, *flags):
        """Returns: the exit code and the messages."""
        self.requests.clear()
        files = f"--input={self.input}", f"--output={self.output}"
        parts = "--batch_size=2", "--concurrency=1"
        code, out, err = self._run("client", f"--server={self.address}", *files, *parts, *flags)
        assert out == ""
        return code, err

    def fail(self, line="line 6"):
        """Runs the client, which fails at a line."""
        self.fail_at = line
        code, err = self.run()
        assert code == 2
        self.fail_at = None
        return err


@pytest.fixture
def job(run, tmp_path):
    jobs = []
    with scripted_server(lambda texts: jobs[0].answer(texts)) as address:
        jobs.append(Job(run, tmp_path, address))
        yield jobs[0]


TRANSLATED = "".join(f"{line.upper()}\n" for line in LINES)


def test_a_run_that_fails_is_continued(job):
    job.output.write_text("earlier")
    err = job.fail()
    message = f"{job.partial} has the translations of lines 1 to 6: the same command continues"
    assert message in err
    assert "bad (in the request of lines 7 to 8)" in err
    assert job.output.read_text() == "earlier"
    assert "bad (in the request of lines 9 to 10)" in job.fail("line 8")
    code, err = job.run()
    assert code == 0
    assert f"continuing after line 8: {job.partial} has" in err
    assert job.requests == [LINES[8:10], LINES[10:12]]
    assert job.output.read_text() == TRANSLATED
    assert not job.partial.exists()


def test_a_line_that_is_refused_can_be_corrected(job):
    """The lines that are done must be the same; the others may change, and be more or fewer."""
    job.fail()
    job.write_input([*LINES[:6], "other"])
    assert job.run()[0] == 0
    assert job.requests == [["other"]]
    assert job.output.read_text() == TRANSLATED[: 6 * len("LINE 0\n")] + "OTHER\n"


def test_an_interrupted_run_is_continued(job, monkeypatch):
    def interrupted(client, lines, *arguments, **options):
        for number, line in enumerate(lines):
            if number == 5:
                raise KeyboardInterrupt
            yield line.upper(), -0.5

    with monkeypatch.context() as patched:
        patched.setattr(serving_client, "translate_lines", interrupted)
        code, err = job.run()
    assert code == 130
    assert "has the translations of lines 1 to 5" in err
    assert err.endswith("tf-transformer: interrupted\n")
    assert job.run()[0] == 0
    assert job.requests[0] == LINES[5:7]
    assert job.output.read_text() == TRANSLATED


@pytest.mark.parametrize("lost", [1, 10, 35])
def test_a_killed_process_leaves_an_incomplete_line(job, lost):
    job.fail()
    job.partial.write_bytes(job.partial.read_bytes()[:-lost])
    code, _ = job.run()
    assert code == 0
    assert job.requests[0] == (LINES[5:7] if lost < 30 else LINES[4:6])
    assert job.output.read_text() == TRANSLATED


@pytest.mark.parametrize("size", [0, 9])
def test_a_process_that_was_killed_at_its_start(job, size):
    job.fail()
    job.partial.write_bytes(job.partial.read_bytes()[:size])
    assert job.run()[0] == 0
    assert job.output.read_text() == TRANSLATED


def test_other_input_server_or_model_is_refused(job):
    job.fail()
    before = job.partial.read_bytes()
    job.write_input(["changed", *LINES])
    message = f"{job.input}:1: {job.partial} has the translation of another line: give the same"
    assert message in job.run()[1]
    job.write_input(LINES[:5])
    assert f"{job.input}:6: {job.partial} has the translation of another line" in job.run()[1]
    job.input.unlink()
    assert f"cannot read {job.input}" in job.run()[1]
    job.write_input(LINES)
    message = f"{job.partial} has translations of the model transformer at {job.address}: give that"
    assert message in job.run("--name=other")[1]
    assert message in job.run("--server=127.0.0.1:9")[1]
    assert job.requests == []
    assert job.partial.read_bytes() == before
    assert not job.output.exists()


def test_another_file_of_that_name_is_kept(job):
    for text in ("the reader's own\n", '{"server": 1}\n', "\n"):
        job.partial.write_text(text)
        code, err = job.run()
        assert code == 2
        assert f"{job.partial} is not a file of unfinished translations: rename it" in err
        assert job.partial.read_text() == text


def test_lines_that_are_too_long_are_reported_by_the_run_that_completes_the_file(job, monkeypatch):
    def answer(texts):
        return (413, {}) if "line 1" in texts else Job.answer(job, texts)

    monkeypatch.setattr(job, "answer", answer)
    job.fail()
    code, err = job.run()
    assert code == 2
    assert err.endswith("lines too long for the model or the server, with an empty translation: "
                        "2; split them\n")  # fmt: skip
    assert job.output.read_text() == TRANSLATED.replace("LINE 1\n", "\n", 1)
    assert not job.partial.exists()


def test_without_a_translation_nothing_is_left(job):
    job.fail("line 0")
    assert os.listdir(job.input.parent) == ["in.txt"]
    job.input.unlink()
    assert f"cannot read {job.input}" in job.run()[1]
    assert os.listdir(job.input.parent) == []


def test_two_processes_do_not_write_one_file(job):
    output = PartialOutput(str(job.output), job.address, "transformer")
    assert f"another process writes {job.partial}: wait" in job.run()[1]
    output.close()
    assert job.run()[0] == 0


def test_the_name_of_the_output_is_that_of_errors(job, full):
    job.output = job.input.parent / "in.txt" / "out.txt"
    assert "in.txt" in job.run()[1]
    job.output = job.input.parent / ("n" * 250)
    code, err = job.run()
    assert (code, err) == (
        2, f"tf-transformer: error: {job.output}: File name too long: give a shorter path\n"
    )  # fmt: skip
    job.output = job.input.parent / "folder"
    job.output.mkdir()
    code, err = job.run()
    assert code == 2
    assert f"{job.output}: Is a directory" in err
    job.output = full
    code, err = job.run()
    assert code == 2
    assert f"{full}: No space left on device" in err


def test_a_record_keeps_any_text(tmp_path):
    path = str(tmp_path / "out")
    texts = ["", "\u2028 \r \0 \x85", "Ein „Wort“ 😀", '"\\', " x "]
    output = PartialOutput(path, "server", "model")
    output.resume(iter([]), "in")
    for text in texts:
        output.write(text, text, -0.5)
    output.close()
    output = PartialOutput(path, "server", "model")
    output.resume(iter(texts), "in")
    assert output.written == len(texts)
    records = [json.loads(line) for line in open(output.partial, encoding="utf-8", newline="\n")]
    assert [record[0] for record in records[1:]] == texts
    output.complete()
    output.close()
    assert (tmp_path / "out").read_bytes() == "".join(f"{text}\n" for text in texts).encode()


@pytest.mark.parametrize("before, kind", [(True, "with"), (False, "without")])
def test_lines_and_sentences_are_not_mixed(tmp_path, before, kind):
    path = str(tmp_path / "out")
    output = PartialOutput(path, "server", "model", before)
    output.resume(iter([]), "in")
    output.write("One. Two.", "Eins. Zwei.", -0.5)
    output.close()
    message = f"has translations {kind} --split_sentences: give the same flags"
    with pytest.raises(UserError, match=message):
        PartialOutput(path, "server", "model", not before)
    output = PartialOutput(path, "server", "model", before)
    output.resume(iter(["One. Two."]), "in")
    assert output.written == 1
    output.close()


def test_the_unfinished_file_is_private(tmp_path):
    output = PartialOutput(str(tmp_path / "out"), "server", "model")
    output.close()
    assert os.stat(output.partial).st_mode & 0o077 == 0
    assert output.partial.endswith(partial_output.SUFFIX)
