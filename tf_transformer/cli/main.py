"""The command line: `tf-transformer COMMAND --flag=value ...`."""

import os
import sys

from absl import flags

from tf_transformer.cli.allocator import plain_process, use_allocator
from tf_transformer.cli.flags import COMMANDS, parse, usage
from tf_transformer.cli.terminal import log_to_stderr
from tf_transformer.errors import UserError

USER_ERROR = 2  # exit code for a user's mistake
INTERRUPTED = 130  # exit code of a command that Ctrl-C ended


def main(argv=None):
    """Runs one command.

    Args:
      argv: the arguments after the program's name; `sys.argv[1:]` where None.
    Returns: the exit code: 0 for success, 2 for a user's mistake, 130 for Ctrl-C (but 0 from train,
      which saves first).
    """
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("help", "--help", "-h", "-help"):
        print(usage())
        return 0
    command, *rest = arguments
    if command == "--version":
        from tf_transformer import __version__

        print(__version__)
        return 0
    try:
        if command not in COMMANDS:
            raise UserError(f"unknown command {command!r}: give one of {', '.join(COMMANDS)}")
        values = parse(command, rest)
        if values is None:
            return 0
        if argv is None:
            use_allocator()
        log_to_stderr()
        return run_command(command, values) or 0
    except (UserError, flags.Error) as error:
        print(f"tf-transformer: error: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("tf-transformer: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output is gone, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:  # no such folder for the output, no space, no permission
        print(
            f"tf-transformer: error: {error.filename or ''}: {error.strerror or error}",
            file=sys.stderr,
        )
        return USER_ERROR


def run_command(command, values):
    """Calls the function of a command with the values of its flags."""
    from tf_transformer.cli import info, paper, serving, training, translation

    functions = {
        "train": training.train,
        "translate": translation.translate,
        "evaluate": translation.evaluate,
        "parse": translation.parse,
        "evalb": paper.evalb,
        "average": training.average,
        "export": serving.export,
        "serve": serving.serve,
        "client": serving.client,
        "info": info.info,
        "plot": training.plot,
        "table3": paper.table3,
    }
    return functions[command](values)


def run():
    """The program: runs a command and ends the process at once.

    The threads of TensorFlow's input pipelines may still be running, and an orderly exit of the
    interpreter can then hang or crash. `TF_TRANSFORMER_NO_REEXEC=1` ends it in order.
    """
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    sys.stderr.flush()
    if plain_process():
        sys.exit(code)
    os._exit(code)
