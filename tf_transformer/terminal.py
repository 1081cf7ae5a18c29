"""What all commands share: silence at the start of TensorFlow, and output that is whole or not there."""

import contextlib
import os
import sys

from tf_transformer.config import UserError
from tf_transformer.whole_file import whole_file


def quiet():
    """Hides the start-up messages of TensorFlow, which tell a user nothing."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # its C++ part writes some of them without asking for a level
    try:
        import tensorflow as tf

        tf.config.list_physical_devices()
    finally:
        os.dup2(stderr, 2)
    tf.get_logger().setLevel("ERROR")


def required(values, name):
    """The value of a flag. Raises: UserError when it was not given."""
    if not values[name].value:
        raise UserError(f"--{name} is missing")
    return values[name].value


@contextlib.contextmanager
def memory_explained(most):
    """Makes a `UserError` of a device's being out of memory with so many tokens at a time."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise UserError(f"out of memory: give a smaller --max_tokens_per_replica than {most} (the update stays the same)") from error


@contextlib.contextmanager
def open_output(path):
    """A file to write to, or standard output where there is no path, in UTF-8 whatever the locale.

    The file takes its name when all of it is written, so a failure costs no earlier one.
    """
    if not path:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    special = os.path.exists(path) and not os.path.isfile(path)  # a device or a pipe; a folder is refused here
    with open(path, "w", encoding="utf-8") if special else whole_file(path) as file:
        yield file
