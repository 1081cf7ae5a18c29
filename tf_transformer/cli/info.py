"""The command info."""

from absl import flags

from tf_transformer.checkpoints.model_folder import find_model_dir, load_config
from tf_transformer.cli.describe import describe_folder, describe_preset
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.errors import UserError
from tf_transformer.presets import preset


def info(values: flags.FlagValues) -> None:
    """Describes a model folder, or else a preset; with --data also sentence pairs."""
    if values.model_dir and values["preset"].present:
        raise UserError("--model_dir and --preset: give one of them")
    for name in ("source", "target"):
        if values[name].present and not values.data:
            raise UserError(f"--{name} is for --data")
    model_dir = find_model_dir(values.model_dir) if values.model_dir else ""
    if model_dir:
        parts = [describe_folder(model_dir)]
    else:
        parts = [describe_preset(values.preset)]
    if values.data:
        parts.append(_describe_data(values, model_dir))
    print("\n\n".join(parts))


def _describe_data(values: flags.FlagValues, model_dir: str) -> str:
    """Describes the sentence pairs of --data, with the vocabulary of the model if there is one."""
    start_tensorflow()
    from tf_transformer.cli.describe_data import describe_data
    from tf_transformer.data.readers import open_corpus
    from tf_transformer.data.tokenizer import load_tokenizers

    tokenizers = None
    if model_dir:
        config = load_config(model_dir)
        tokenizers = load_tokenizers(model_dir, config.data.shared_vocab)
    else:
        config = preset(values.preset)
    source = values.source or config.data.source
    target = values.target or config.data.target
    return describe_data(config, open_corpus(values.data, source, target), tokenizers)
