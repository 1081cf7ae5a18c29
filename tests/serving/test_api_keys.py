"""The files of API keys."""

import logging
import os
import threading

import pytest

from tf_transformer.errors import UserError
from tf_transformer.serving import api_keys
from tf_transformer.serving.api_keys import ApiKeys, client_key, read_api_keys

ALICE, ALICE_2, BATCH = "a" * 16, "-a1._~+/Zz09+abc==", "b" * 256


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "keys"
    write(path, f"alice {ALICE}")
    return path


def write(path, *lines):
    """Replaces a file that only its owner can read."""
    new = path.with_name("new")
    new.write_text("\n".join(lines), "utf-8")
    new.chmod(0o600)
    os.replace(new, path)


def test_a_name_may_have_several_keys(path):
    write(path, "\ufeff# keys", "", f"  alice\t{ALICE} ", f"alice {ALICE_2}\r", f"batch {BATCH}")
    keys = ApiKeys(str(path))
    assert [keys.name_of(key) for key in (ALICE, ALICE_2, BATCH)] == ["alice", "alice", "batch"]
    for key in ("", "a" * 15, "a" * 17, "alice", ALICE.upper(), "ä" * 16, f"{ALICE} "):
        assert keys.name_of(key) is None


def test_the_keys_are_not_kept_in_memory(path):
    assert all(len(digest) == 32 for digest in read_api_keys(str(path)))
    assert ALICE not in str(vars(ApiKeys(str(path))))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "has no key: write lines NAME KEY; make a key with `openssl rand -hex 24`$"),
        ("# alice", "has no key"),
        ("\nalice", "line 2: write NAME KEY, and no more words$"),
        (f"alice {ALICE} x", "line 1: write NAME KEY"),
        (f"al:ice {ALICE}", "line 1: give a name of at most 64 letters"),
        ("alice secret", "line 1: give a key of 16 to 256 letters, digits"),
        (f"alice {'ä' * 16}", "line 1: give a key of 16 to 256 letters, digits"),
        (f"alice {ALICE}\nbatch {ALICE}", "line 2: batch has the same key as alice"),
        ("x" * 2**21, "it has more than 1 MiB"),
    ],
)
def test_malformed_files(path, text, message):
    path.write_text(text)
    with pytest.raises(UserError, match=message) as raised:
        read_api_keys(str(path))
    assert "secret" not in str(raised.value)
    assert ALICE not in str(raised.value)


def test_files_that_cannot_be_read(path, tmp_path):
    with pytest.raises(UserError, match="cannot read the API keys in .*: No such file"):
        read_api_keys(f"{path}.missing")
    with pytest.raises(UserError, match="cannot read the API keys in .*: Is a directory"):
        read_api_keys(str(tmp_path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8 text"):
        read_api_keys(str(path))


def test_a_changed_file_is_read_again(path, clock, caplog):
    keys = ApiKeys(str(path), clock)
    write(path, f"batch {BATCH}")
    assert keys.name_of(ALICE) == "alice"  # the file is not looked at for every request
    clock.now += 1
    assert keys.name_of(ALICE) is None
    assert keys.name_of(BATCH) == "batch"

    write(path, "batch short")
    for _ in range(3):
        clock.now += 1
        assert keys.name_of(BATCH) == "batch"
    path.unlink()
    for _ in range(3):
        clock.now += 1
        assert keys.name_of(BATCH) == "batch"
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    malformed, missing = errors
    assert malformed.startswith(f"{path}, line 1: give a key")
    assert missing.startswith(f"cannot read the API keys in {path}: No such file")
    assert malformed.endswith("; the API keys stay those that were read before")
    write(path, f"alice {ALICE_2}")
    clock.now += 1
    assert keys.name_of(ALICE_2) == "alice"
    assert keys.name_of(BATCH) is None


def test_a_file_that_could_not_be_read_is_tried_again(path, clock, caplog, monkeypatch):
    keys = ApiKeys(str(path), clock)
    write(path, f"batch {BATCH}")

    def deny(path):
        raise UserError(f"cannot read the API keys in {path}: Permission denied")

    with monkeypatch.context() as context:
        context.setattr(api_keys, "read_api_keys", deny)
        for _ in range(3):
            clock.now += 1
            assert keys.name_of(ALICE) == "alice"
    assert caplog.text.count("Permission denied") == 1
    clock.now += 1  # the file is readable now, and has not changed
    assert keys.name_of(ALICE) is None
    assert keys.name_of(BATCH) == "batch"


def test_a_file_that_all_users_can_read_is_a_warning(path, clock, caplog):
    caplog.set_level(logging.INFO, "tf_transformer")
    keys = ApiKeys(str(path), clock)
    path.chmod(0o640)
    ApiKeys(str(path))
    assert {record.levelname for record in caplog.records} == {"INFO"}
    write(path, f"batch {BATCH}")
    path.chmod(0o604)
    clock.now += 1
    assert keys.name_of(BATCH) == "batch"
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    message = f"all users of this host can read the API keys in {path}: chmod o-r {path}"
    assert warning.getMessage() == message
    assert "read 1 API keys of 1 names" in caplog.text
    assert BATCH not in caplog.text


def test_the_key_of_a_client(path):
    environment = {"TF_TRANSFORMER_API_KEY": f" {BATCH}\n"}
    assert client_key(None, {}) is None
    assert client_key(None, {"TF_TRANSFORMER_API_KEY": ""}) is None
    assert client_key(None, environment) == BATCH
    assert client_key(str(path), environment) == ALICE
    write(path, "# mine", ALICE_2)
    assert client_key(str(path), environment) == ALICE_2
    with pytest.raises(UserError, match="^TF_TRANSFORMER_API_KEY: give a key of 16") as raised:
        client_key(None, {"TF_TRANSFORMER_API_KEY": "two words"})
    assert "two" not in str(raised.value)
    write(path, f"alice {ALICE}", f"batch {BATCH}")
    with pytest.raises(UserError, match="has 2 lines with a key: a client needs exactly one$"):
        client_key(str(path), {})
    write(path, f"alice {ALICE} x")
    with pytest.raises(UserError, match="line 1: write KEY or NAME KEY"):
        client_key(str(path), {})


def test_a_pipe_is_read_once(tmp_path, path, clock, caplog):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[f"alice {ALICE}"])
    writer.start()
    keys = ApiKeys(str(pipe), clock)
    writer.join()
    os.utime(pipe, (1, 1))
    clock.now += 10
    assert keys.name_of(ALICE) == "alice"
    # A pipe in the place of the file, which nobody writes.
    keys = ApiKeys(str(path), clock)
    os.replace(pipe, path)
    clock.now += 10
    assert keys.name_of(ALICE) == "alice"
    assert f"{path} is not a file; the API keys stay" in caplog.text
