"""Ctrl-C and other signals ask a run to save and stop."""

import os
import signal

import pytest

from tf_transformer.training.trainer import PreemptionHandler


@pytest.fixture(autouse=True)
def restored_handlers():
    """Restores the handlers, and enables Ctrl-C, which a shell ignores for background jobs."""
    before = {number: signal.getsignal(number) for number in PreemptionHandler.SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", PreemptionHandler.SIGNALS)
def test_first_signal_is_a_request(number, capfd):
    """The handlers are then as before; Ctrl-C has its former effect already."""
    with PreemptionHandler() as preemption:
        assert not preemption.requested
        signal.raise_signal(number)
        assert preemption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert f"{number.name}: saving after this update" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@pytest.mark.parametrize("number", PreemptionHandler.SIGNALS)
def test_ignored_signals_stay_ignored(number):
    """As SIGHUP under `nohup`, and Ctrl-C in a background job of a script."""
    signal.signal(number, signal.SIG_IGN)
    with PreemptionHandler() as preemption:
        signal.raise_signal(number)
        assert not preemption.requested


def test_hangups_and_terminations_that_arrive_twice():
    """From a terminal that is closed, the system and the parent process. Ctrl-C stops at once."""
    received = []
    signal.signal(signal.SIGTERM, lambda *_: received.append("SIGTERM"))
    with PreemptionHandler(lambda *_: received.append("SIGINT")) as preemption:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
        assert preemption.requested and not received
        signal.raise_signal(signal.SIGINT)
        assert received == ["SIGINT"]
    signal.raise_signal(signal.SIGTERM)
    assert received == ["SIGINT", "SIGTERM"]


def test_closed_standard_error():
    """As after `train 2>&1 | head`: the message is lost, and the run is saved."""
    reader, writer = os.pipe()
    os.close(reader)
    stderr = os.dup(2)
    os.dup2(writer, 2)
    try:
        with PreemptionHandler() as preemption:
            signal.raise_signal(signal.SIGTERM)
            assert preemption.requested
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(writer)
