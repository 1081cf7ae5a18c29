"""Progress of long work: a bar on a terminal, log lines elsewhere."""

import io
import logging
import sys

import pytest

from tf_transformer.data import progress
from tf_transformer.data.progress import Progress


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_progress(monkeypatch, caplog, terminal, seconds):
    """Log lines have a minimum distance."""
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: terminal)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(progress, "LOG_SECONDS", seconds)
    with caplog.at_level(logging.INFO, "tf_transformer"), Progress("encoding", "pairs") as shown:
        for done in (4000, 5000):
            shown.show(done)
    assert ("encoding: 5.00k pairs" in stderr.getvalue()) == terminal
    assert stderr.getvalue().endswith("\r") == terminal  # the bar is removed at the end
    assert len(caplog.messages) == (0 if terminal or seconds else 2)
    assert all("000 pairs in " in message for message in caplog.messages)
