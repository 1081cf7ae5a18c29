"""`python -m tf_transformer`: the command line."""

import sys

from tf_transformer.cli.interrupts import exit_if_interrupted, handle_interrupts


def run() -> None:
    """Runs the program. Ctrl-C is handled before the long imports begin."""
    handle_interrupts()
    try:
        from tf_transformer.cli.main import run as run_program
    except ModuleNotFoundError as error:
        if str(error.name).startswith("tf_transformer"):
            raise
        message = f"the package {error.name} is not installed: pip install tf_transformer"
        print(f"tf-transformer: error: {message}", file=sys.stderr)
        sys.exit(2)
    except BaseException:
        exit_if_interrupted()
        raise
    run_program()


if __name__ == "__main__":
    run()
