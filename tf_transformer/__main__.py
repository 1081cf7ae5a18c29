"""`python -m tf_transformer`: the command line."""

from tf_transformer.cli.main import run

if __name__ == "__main__":
    run()
