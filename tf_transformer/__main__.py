"""The command line: `tf-transformer COMMAND --flag=value ...`."""

import os
import sys

from absl import flags

from tf_transformer import commands, paper_commands
from tf_transformer.allocator import use_allocator
from tf_transformer.command_flags import COMMANDS, parse, usage
from tf_transformer.config import UserError

INTERRUPTED = 130  # exit code of a command that Ctrl-C ended


def main(argv=None):
    """Runs one command.

    Args:
      argv: the words after the program's name; `sys.argv[1:]` where None.
    Returns: the exit code: 0 when all went well, 2 for a mistake of the user's, 130 for Ctrl-C (but 0 from train, which saves first).
    """
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("help", "--help", "-h", "-help"):
        print(usage())
        return 0
    command, *rest = words
    if command == "--version":
        from tf_transformer import __version__

        print(__version__)
        return 0
    try:
        if command not in COMMANDS:
            raise UserError(f"unknown command {command!r}: give one of {', '.join(COMMANDS)}")
        args = parse(command, rest)
        if args is None:
            return 0
        if argv is None:
            use_allocator()
        home = commands if hasattr(commands, command) else paper_commands
        return getattr(home, command)(args) or 0
    except (UserError, flags.Error) as error:
        print(f"tf-transformer: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tf-transformer: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:  # no such folder for the output, no space, no permission
        print(f"tf-transformer: error: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2


def run():
    """The program: runs a command and ends the process at once.

    The threads of TensorFlow's input pipelines may still be at work, and taking the interpreter down around them can hang or crash.
    """
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
