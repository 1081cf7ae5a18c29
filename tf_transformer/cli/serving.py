"""The commands export, serve and client."""

import os
import sys

from tf_transformer.checkpoints import paths
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import DecodeConfig, ServeConfig
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError

MAX_LISTED_LINES = 20  # line numbers in an error message


def export(values):
    """Writes a trained model in the format of another engine."""
    model_dir = required(values, "model_dir")
    _check_format_flags(values)
    paths.load_config(model_dir)
    defaults = {
        "saved_model": "saved_model",
        "ctranslate2": f"ctranslate2-{values.quantization}",
        "keras": "model.keras",
    }
    default = os.path.join(model_dir, "export", defaults[values.format])
    output = (values.output or default).rstrip("/")
    start_tensorflow()
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


def _check_format_flags(values):
    """Raises: UserError for a flag that --format does not use."""
    formats = {"quantization": "ctranslate2", "name": "saved_model"}
    for name in given(values, (DecodeConfig,)):
        formats[name] = "saved_model"
    for name, only in formats.items():
        if values[name].present and values.format != only:
            raise UserError(f"--{name} is for --format={only}")


def serve(values):
    """Serves an exported model over HTTP until SIGINT or SIGTERM."""
    folder = values.export_dir
    if not folder:
        folder = os.path.join(required(values, "model_dir"), "export", "saved_model")
    config = ServeConfig(**given(values, (ServeConfig,)))
    start_tensorflow()
    try:
        from tf_transformer.serving.server import Server
    except ImportError as error:
        raise UserError(
            f"the package {error.name} is missing: pip install 'tf_transformer[serving]'"
        ) from None
    Server(folder, values.name, config).run()


def client(values):
    """Translates lines with a server."""
    from tf_transformer.data.corpus import read_lines
    from tf_transformer.serving.client import GrpcClient, RestClient, translate_lines

    if values.grpc:
        start_tensorflow()
        server = GrpcClient(values.grpc, values.name, values.retries, values.timeout)
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
