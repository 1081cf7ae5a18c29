"""Export of a trained model as a SavedModel for TensorFlow Serving (Olston et al. 2017).

EXPORT_DIR/
  models.config                                server settings: name and folder of the model
  batching_parameters.txt                      server settings: dynamic batching
  monitoring.config                            server settings: Prometheus
  1/                                           a version, which appears when it is complete
    saved_model.pb variables/ assets/          the model
    assets.extra/tf_serving_warmup_requests    requests that a server runs after loading, so that
                                               clients do not wait for initialization
    assets.extra/model.json                    languages, search and limits, for programs
    README.md                                  the signatures, and examples of requests
    SHA256SUMS                                 for sha256sum --check SHA256SUMS
"""

import inspect
import itertools
import os
import string
from collections.abc import Collection
from types import ModuleType
from typing import Any

import tensorflow as tf

from tf_transformer.checkpoints.model_folder import first_model_dir
from tf_transformer.config import Config, DecodeConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.ensemble import Ensemble, Model, load_models, members
from tf_transformer.errors import explain_missing_package
from tf_transformer.export.output_folder import unfinished_folder
from tf_transformer.export.signatures import (
    ALIGNED_LENGTH,
    SIGNATURES,
    TextFunctions,
    graph_function,
    request_options,
)
from tf_transformer.export.versions import check_model_name, find_versions, write_description
from tf_transformer.files import atomic_write, write_checksums

# Texts in a batch of TensorFlow Serving. The graph divides a batch into smaller chunks.
MAX_BATCH_SIZE = 128
WARM_UP_TEXTS = 32  # of which the recorded requests are taken

# The settings files of TensorFlow Serving.
SERVER_SETTINGS = {
    "models.config": """\
model_config_list {
  config {
    name: "$name"
    base_path: "/models/$name"
    model_platform: "tensorflow"
  }
}
""",
    "batching_parameters.txt": f"""\
# The server batches requests that arrive within 5 ms. It refuses requests when 100 batches
# are waiting.
max_batch_size {{ value: {MAX_BATCH_SIZE} }}
batch_timeout_micros {{ value: 5000 }}
max_enqueued_batches {{ value: 100 }}
num_batch_threads {{ value: 2 }}
""",
    "monitoring.config": """\
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
""",
}


def export_saved_model(
    model_dir: str,
    output: str,
    checkpoint: str | None = None,
    name: str = "transformer",
    **decode: Any,
) -> str:
    """Writes the next version of a model, or of an ensemble, for serving.

    Args:
      model_dir, checkpoint: as for `model_list`.
      output: EXPORT_DIR, created if it does not exist. The version is the largest in it plus one.
      name: of the model, for the server.
      **decode: fields of `DecodeConfig` to change.
    Returns: the path of the version.
    Raises: UserError when tensorflow-serving-api is not installed, the name cannot be part of a
      URL, a model cannot be read, two models have different vocabularies, or the output cannot be
      written.
    """
    check_model_name(name)
    _import_prediction_log()  # fails before the model is loaded, which takes seconds
    model, tokenizers, config = load_models(model_dir, checkpoint)
    config = config.replace(**decode, pe_input=model.pe_input, pe_target=model.pe_target)
    # A server ignores folders whose name is not a number, such as an unfinished one.
    with unfinished_folder(output, output) as folder:
        module, signatures = make_signatures(model, tokenizers, config.decode)
        # Without graphs of gradients, which no server needs, this takes 0.7 of the time.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(module, folder, signatures=signatures, options=options)
        _write_warm_up(folder, name, warm_up_texts(tokenizers[0]), signatures, config.decode)
        aligned_length = ALIGNED_LENGTH if "alignments" in signatures else 0
        write_description(folder, config, aligned_length, first_model_dir(model_dir))
        _write(folder, "README.md", _readme(name, os.path.abspath(output), config, signatures))
        write_checksums(folder)
        for file, content in SERVER_SETTINGS.items():
            _write(output, file, string.Template(content).substitute(name=name))
        path = os.path.join(output, str(max(find_versions(output), default=0) + 1))
        os.rename(folder, path)
        return path


def make_signatures(
    model: Model, tokenizers: tuple[Tokenizer, Tokenizer], decode: DecodeConfig
) -> tuple[tf.Module, dict[str, tf.types.experimental.PolymorphicFunction]]:
    """Creates the functions to serve.

    Returns: a `tf.Module` that owns their resources; the functions of `signatures.SIGNATURES` by
      name, without `alignments` for an ensemble.
    """
    # The module owns the variables, not the Keras model: a session, as in TensorFlow Serving,
    # does not find variables under the names that Keras tracks.
    module = tf.Module()
    module.weights = [variable.value for each in members(model) for variable in each.variables]
    module.tokenizers = [tokenizer.resource for tokenizer in tokenizers]
    functions = TextFunctions(model, tokenizers, decode)
    names = list(SIGNATURES)
    if isinstance(model, Ensemble):
        names.remove("alignments")  # one model has attention weights
    return module, {name: graph_function(functions, name, decode) for name in names}


def _write(folder: str, name: str, content: str) -> None:
    with atomic_write(os.path.join(folder, name)) as file:
        file.write(content)


def _import_prediction_log() -> ModuleType:
    """Imports the messages of recorded requests. Raises: UserError when they are missing."""
    with explain_missing_package("tensorflow-serving-api"):
        from tensorflow_serving.apis import prediction_log_pb2
    return prediction_log_pb2


def _write_warm_up(
    folder: str, name: str, texts: list[str], signatures: Collection[str], decode: DecodeConfig
) -> None:
    """Records requests of these signatures: the shortest text, and the eight longest ones.

    No option is left out: where TensorFlow Serving batches requests, all inputs must have the same
    number of rows.
    """
    messages = _import_prediction_log()
    options = request_options(decode)
    by_length = sorted(texts, key=len)
    path = os.path.join(folder, "assets.extra", "tf_serving_warmup_requests")
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, group in itertools.product(signatures, (by_length[:1], by_length[-8:])):
            inputs = dict.fromkeys(SIGNATURES[signature].texts, tf.constant(group))
            for each in SIGNATURES[signature].options:
                value = tf.constant(options[each].default, options[each].dtype)
                inputs[each] = tf.fill([len(group)], value)
            request = {
                "model_spec": {"name": name, "signature_name": signature},
                "inputs": {key: tf.make_tensor_proto(x) for key, x in inputs.items()},
            }
            log = messages.PredictionLog(predict_log={"request": request})
            writer.write(log.SerializeToString())


def warm_up_texts(tokenizer: Tokenizer) -> list[str]:
    """Source texts of 1 to 24 sub-words of the vocabulary of the source."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    pieces = [piece for piece in pieces if piece[0] not in "[<"]  # no special tokens, no bytes
    texts = ["".join(pieces[i : i + 1 + i % 24]) for i in range(WARM_UP_TEXTS)]
    return [text.replace("\u2581", " ").strip() or "." for text in texts]  # SentencePiece's space


def _readme(name: str, output: str, config: Config, signatures: Collection[str]) -> str:
    """The README.md of a version, in Markdown."""
    decode, model = config.decode, config.model
    penalty = f"{decode.length_penalty:g}"
    functions = []
    for each in signatures:
        texts, names = SIGNATURES[each]
        inputs = f"{_code(texts)}; options {_code(names)}" if names else _code(texts)
        outputs = inspect.getdoc(getattr(TextFunctions, each))
        functions.append(f"### {each}\n\nInputs: {inputs}\n\n{outputs}\n")
    row = f"\n| `alignments`: more than {ALIGNED_LENGTH} sub-words | empty, no weights |"
    of_alignments = row if "alignments" in signatures else ""
    options = [
        f"| `{each}` | {option.dtype.name} | {option.meaning} | {option.range} | {option.default} |"
        for each, option in request_options(decode).items()
    ]
    new_line = "\n"
    return f"""\
# {name}: {config.data.source} -> {config.data.target}

A Transformer ("Attention Is All You Need") with its tokenizer and its search. Beam size:
{decode.beam_size}, length penalty: {penalty}. An output is at most {decode.extra_decode_length} \
sub-words longer than the input.

## Start a server

    docker run --rm -p 8500:8500 -p 8501:8501 -v '{output}:/models/{name}' tensorflow/serving \\
      --model_config_file=/models/{name}/models.config \\
      --monitoring_config_file=/models/{name}/monitoring.config \\
      --enable_batching --batching_parameters_file=/models/{name}/batching_parameters.txt

## Send a request

    curl http://localhost:8501/v1/models/{name}:predict \\
      -d '{{"instances": ["a sentence", "another sentence"]}}'

In Python, in this folder; `import tensorflow_text` adds the operations of the tokenizer:

    import tensorflow as tf, tensorflow_text
    signatures = tf.saved_model.load(".").signatures
    print(signatures["serving_default"](text=tf.constant(["a sentence"])))

## Values of `signature_name`

N texts are strings `[N]`, of S source and T target sub-words, with K translations each. The model
has L layers with H heads.

{new_line.join(functions)}
## Options

Options are values `[N]`, one for each text. A request over gRPC without TensorFlow Serving's
batching can leave them out, and so can one to `tf-transformer serve`. Over REST, TensorFlow Serving
needs each one in each row, and the signatures of `tf.saved_model.load` take each one as a tensor.

| option | type | meaning | range | default |
|---|---|---|---|---|
{new_line.join(options)}

Scores are log-probabilities in nats, of translations divided by ((5 + length) / 6) ^ {penalty}.

The result of a row does not depend on the other rows:

| text | result |
|---|---|
| blank | empty, score 0 |
| more than {model.pe_input:,} sub-words | empty, score -1e9 |
| `score`: a target of more than {model.pe_target:,} sub-words | empty, score -1e9 |{of_alignments}
| invalid UTF-8 | read as U+FFFD |
| fewer hypotheses found than requested | the last are empty, with score -1e9 |

With these batching settings, TensorFlow Serving refuses a request of more than
{MAX_BATCH_SIZE} rows.
"""


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
