"""The commands export, serve and client."""

import os
import sys

from tf_transformer.checkpoints import paths
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.config import DecodeConfig, ServeConfig
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError


def export(values):
    """Writes a trained model in the form of another engine."""
    model_dir, form = required(values, "model_dir"), values.format
    decode = given(values, (DecodeConfig,))
    for name, owner in {
        "quantization": "ctranslate2",
        "name": "saved_model",
        **dict.fromkeys(decode, "saved_model"),
    }.items():
        if values[name].present and form != owner:
            raise UserError(f"--{name} is for --format={owner}")
    paths.load_config(model_dir)
    default = {
        "saved_model": "saved_model",
        "ctranslate2": f"ctranslate2-{values.quantization}",
        "keras": "model.keras",
    }
    output = (values.output or os.path.join(model_dir, "export", default[form])).rstrip("/")
    start_tensorflow()
    if form == "saved_model":
        from tf_transformer.serving.saved_model import export_saved_model

        path = export_saved_model(model_dir, output, values.checkpoint, values.name, **decode)
        print(
            f"wrote {path} for TensorFlow Serving; {path}/README.md says how to start a server and what to ask"
        )
    elif form == "ctranslate2":
        from tf_transformer.serving.ctranslate2_export import write_ctranslate2_folder

        write_ctranslate2_folder(model_dir, output, values.checkpoint, values.quantization)
        print(f"wrote {output} for ctranslate2.Translator({output!r})")
    else:
        from tf_transformer.serving.keras_export import export_keras

        export_keras(model_dir, output, values.checkpoint)
        print(
            f"wrote {output}: from tf_transformer import Transformer, then keras.models.load_model({output!r})"
        )


def serve(values):
    """Answers over HTTP until SIGINT or SIGTERM."""
    folder = values.export_dir or os.path.join(
        required(values, "model_dir"), "export", "saved_model"
    )
    config = ServeConfig(**given(values, (ServeConfig,)))
    start_tensorflow()
    try:
        from tf_transformer.serving.server import Server
    except ImportError as error:
        raise UserError(
            f"the package {error.name} is missing: pip install 'tf_transformer[serving]'"
        ) from None
    Server(folder, values.name, config, say=lambda line: print(line, flush=True)).run()


def client(values):
    """Translates lines by a server."""
    from tf_transformer.data.corpus import read_lines
    from tf_transformer.serving.client import GrpcClient, RestClient, translate_lines

    if values.grpc:
        start_tensorflow()
    kind, address = (GrpcClient, values.grpc) if values.grpc else (RestClient, values.server)
    ask = kind(address, values.name, values.retries, values.timeout)
    typed = not values.input and sys.stdin.isatty()  # then each line is answered at once
    batch_size, concurrency = (1, 1) if typed else (values.batch_size, values.concurrency)
    with open_output(values.output) as output:
        too_long = []
        for number, (translation, score) in enumerate(
            translate_lines(ask, read_lines(values.input), batch_size, concurrency), start=1
        ):
            output.write(f"{translation}\n")
            if typed:
                output.flush()
            if not is_possible(score):
                too_long.append(str(number))
        output.flush()
    if too_long:
        lines = ", ".join(too_long[:20]) + (", ..." if len(too_long) > 20 else "")
        raise UserError(
            f"too long for the model, so their translations are empty: line {lines}; divide them"
        )
