"""The command info."""

from tf_transformer.cli.terminal import start_tensorflow


def info(values):
    """Describes a preset, sentence pairs, or a model folder."""
    start_tensorflow()
    from tf_transformer.cli.describe import describe

    print(describe(values.preset, values.model_dir, values.data, values.source, values.target))
