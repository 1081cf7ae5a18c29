"""The commands export, serve and client."""

import contextlib
import os
import sys
from collections.abc import Iterator

from absl.flags import FlagValues

from tf_transformer.checkpoints import paths, pretrained
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import DecodeConfig, ServeConfig
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError

MAX_LISTED_LINES = 20  # line numbers in an error message


def export(values: FlagValues) -> None:
    """Writes a trained model in the format of another engine."""
    model_dir = pretrained.find_model_dir(required(values, "model_dir"))
    _check_format_flags(values)
    paths.load_config(model_dir)
    defaults = {
        "saved_model": "saved_model",
        "ctranslate2": f"ctranslate2-{values.quantization}",
        "keras": "model.keras",
    }
    folder = pretrained.writable_folder(model_dir)
    output = values.output or os.path.join(folder, "export", defaults[values.format])
    output = output.rstrip("/") or "/"
    start_tensorflow()
    _export(values, model_dir, output)


def _export(values: FlagValues, model_dir: str, output: str) -> None:
    if values.format == "saved_model":
        from tf_transformer.serving.saved_model import export_saved_model

        decode = given(values, (DecodeConfig,))
        path = export_saved_model(model_dir, output, values.checkpoint, values.name, **decode)
        print(f"wrote {path} for TensorFlow Serving")
        print(f"{path}/README.md explains how to start a server and what to send to it")
    elif values.format == "ctranslate2":
        from tf_transformer.serving.ctranslate2_export import write_ctranslate2_folder

        write_ctranslate2_folder(model_dir, output, values.checkpoint, values.quantization)
        print(f"wrote {output}; load it with ctranslate2.Translator({output!r})")
    else:
        from tf_transformer.serving.keras_export import export_keras

        export_keras(model_dir, output, values.checkpoint)
        print(
            f"wrote {output}; after `from tf_transformer import Transformer`, load it with "
            f"keras.models.load_model({output!r})"
        )


def _check_format_flags(values: FlagValues) -> None:
    """Raises: UserError for a flag that --format does not use."""
    formats = {"quantization": "ctranslate2", "name": "saved_model"}
    for name in given(values, (DecodeConfig,)):
        formats[name] = "saved_model"
    for name, only in formats.items():
        if values[name].present and values.format != only:
            raise UserError(f"--{name} is for --format={only}")


def serve(values: FlagValues) -> None:
    """Serves an exported model over HTTP until SIGINT or SIGTERM."""
    config = ServeConfig(**given(values, (ServeConfig,)))
    model_dir = "" if values.export_dir else _find_model(values.model_dir)
    start_tensorflow()
    try:
        from tf_transformer.serving.connections import bind_address
        from tf_transformer.serving.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tf_transformer"):
            raise
        raise UserError(
            f"the package {error.name} is missing: pip install 'tf_transformer[serving]'"
        ) from None
    # A port in use is reported before the export and the model's loading, which take seconds.
    with bind_address(config) as bound, _export_to_serve(values.export_dir, model_dir) as folder:
        Server(folder, values.name, config).run(bound)


def _find_model(model_dir: str | None) -> str:
    """Returns the folder of the given model, or of the default one. Raises: UserError."""
    model_dir = pretrained.find_model_dir(model_dir) if model_dir else pretrained.default_model()
    paths.load_config(model_dir)  # a wrong folder is reported before TensorFlow is loaded
    return model_dir


@contextlib.contextmanager
def _export_to_serve(export_dir: str | None, model_dir: str) -> Iterator[str]:
    """Yields the folder of the versions to serve. A built-in model is exported first.

    The export of a read-only model folder is where `export` writes it by default.
    """
    if export_dir:
        yield export_dir
        return
    if not pretrained.is_built_in(model_dir):
        folder = os.path.join(model_dir, "export", "saved_model")
        if not os.path.isdir(folder):
            folder = os.path.join(pretrained.writable_folder(model_dir), "export", "saved_model")
        yield folder
        return
    from tf_transformer.serving.built_in_export import built_in_export

    with built_in_export(model_dir) as folder:
        yield folder


def client(values: FlagValues) -> None:
    """Translates lines with a server."""
    from tf_transformer.data.corpus import read_lines
    from tf_transformer.serving.client import Client, GrpcClient, RestClient, translate_lines

    if values.grpc:
        start_tensorflow()
        server: Client = GrpcClient(values.grpc, values.name, values.retries, values.timeout)
    else:
        server = RestClient(values.server, values.name, values.retries, values.timeout)
    interactive = not values.input and sys.stdin.isatty()
    batch_size = values.batch_size
    concurrency = values.concurrency
    if interactive:  # each line is answered at once
        batch_size = 1
        concurrency = 1
    too_long = []
    with open_output(values.output) as output:
        results = translate_lines(server, read_lines(values.input), batch_size, concurrency)
        for number, (translation, score) in enumerate(results, start=1):
            output.write(f"{translation}\n")
            if interactive:
                output.flush()
            if not is_possible(score):
                too_long.append(str(number))
        output.flush()
    if too_long:
        lines = ", ".join(too_long[:MAX_LISTED_LINES])
        if len(too_long) > MAX_LISTED_LINES:
            lines += ", ..."
        raise UserError(
            f"lines too long for the model, with an empty translation: {lines}; split them"
        )
