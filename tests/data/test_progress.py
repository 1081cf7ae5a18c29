"""Progress of long work: a bar on a terminal, log lines elsewhere."""

import io
import logging
import sys

from tf_transformer.data import progress
from tf_transformer.data.progress import Progress


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self):
        return True


def test_a_terminal_has_a_bar(monkeypatch, caplog):
    terminal = Terminal()
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "tf_transformer"), Progress("encoding", "pairs") as shown:
        shown.show(5000)
    assert "encoding: 5.00k pairs" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")  # the bar is removed at the end
    assert not caplog.records


def test_log_lines_have_a_minimum_distance(monkeypatch, caplog):
    seconds = iter([0, 29, 30, 31, 59, 60.4])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    with caplog.at_level(logging.INFO, "tf_transformer"), Progress("encoding", "pairs") as shown:
        for done in (1000, 2000, 3000, 4000, 5000):
            shown.show(done)
    assert caplog.messages == ["encoding: 2,000 pairs in 30 s", "encoding: 5,000 pairs in 60 s"]
