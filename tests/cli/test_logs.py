"""Log messages: on standard error, and in the `train.log` of a run."""

import logging
import re
import sys

import pytest

from tf_transformer.cli import messages
from tf_transformer.data.progress import shows_bars

logger = logging.getLogger("tf_transformer.training.trainer")


@pytest.fixture(autouse=True)
def no_handlers():
    yield
    messages.stop_logging()


def test_log_lines_have_time_and_level(capsys):
    messages.log_to_stderr()
    messages.log_to_stderr()  # a second command in the same process does not repeat the lines
    logger.info("step %d", 7)
    logger.warning("the rate is high")
    logger.debug("not shown")
    out, err = capsys.readouterr()
    expected = ["INFO step 7", "WARNING the rate is high"]
    assert out == ""
    for line, text in zip(err.splitlines(), expected, strict=True):
        assert re.fullmatch(rf"\d\d:\d\d:\d\d {text}", line)


@pytest.mark.parametrize(
    ("flag", "shown"),
    [("--verbose", "DEBUG INFO WARNING"), ("--nodebug", "INFO WARNING"), ("--quiet", "WARNING")],
)
def test_verbose_and_quiet(run, replace_info, monkeypatch, flag, shown):
    def info(values):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            logger.log(level, "message")
        bars.append(shows_bars())

    bars = []
    monkeypatch.setenv("TQDM_DISABLE", "")  # which --quiet sets
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    replace_info(info)
    _, _, err = run("info", flag)
    assert " ".join(re.findall("DEBUG|INFO|WARNING", err)) == shown
    assert bars == [flag != "--quiet"]


def test_a_run_log_has_the_messages_of_all_commands(tmp_path, monkeypatch):
    # Otherwise pytest captures the surrogate below, and pytest-xdist cannot send it.
    monkeypatch.setattr(messages.package_logger, "propagate", False)
    path = tmp_path / "run" / "train.log"
    for level in (logging.INFO, logging.WARNING):
        messages.log_to_stderr(level)
        messages.log_to_folder(str(path.parent))
        messages.record_in_run_log("an error alone begins no run log")
        assert path.exists() == (level == logging.WARNING)  # it appears at the first message
        logger.info("Häuser \udcc3")
    text = path.read_text("utf-8")
    date = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d"
    message = rf"{date} INFO tf_transformer.training.trainer: Häuser \\udcc3\n"
    error = rf"{date} ERROR tf_transformer.cli.messages: an error alone begins no run log\n"
    assert re.fullmatch(message + error + message, text)


def test_a_run_log_that_cannot_be_written(full, tmp_path, capsys):
    """The program goes on, also on a full disk: the next checkpoint is an error."""
    (tmp_path / "train.log").symlink_to(full)
    messages.log_to_stderr()
    messages.log_to_folder(str(tmp_path))
    logger.info("step 1")
    messages.record_in_run_log("it ended")
    logger.info("step 2")
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == ["1", "2"]
