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

import os
import textwrap
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

import tensorflow as tf

from tf_transformer.config import Config, DecodeConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.ensemble import Ensemble, Model, load_models, members
from tf_transformer.errors import explain_missing_package
from tf_transformer.export.output_folder import unfinished_folder
from tf_transformer.export.signatures import (
    ALIGNED_LENGTH,
    SIGNATURES,
    TextFunctions,
    all_signatures,
    request_options,
)
from tf_transformer.export.versions import check_model_name, write_description
from tf_transformer.files import atomic_write, write_checksums

# Texts in a batch of TensorFlow Serving. The graph divides a batch into smaller chunks.
MAX_BATCH_SIZE = 128
WARM_UP_TEXTS = 32  # in the largest recorded request


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
    import_messages()  # fails before the model is loaded, which takes seconds
    model, tokenizers, config = load_models(model_dir, checkpoint)
    config = config.replace(**decode, pe_input=model.pe_input, pe_target=model.pe_target)
    # A server ignores folders whose name is not a number, such as an unfinished one.
    with unfinished_folder(output, output) as folder:
        module, signatures = make_signatures(model, tokenizers, config.decode)
        tf.saved_model.save(module, folder, signatures=signatures)
        _write_warm_up(folder, name, warm_up_texts(tokenizers[0]), signatures, config.decode)
        readme = _readme(name, os.path.abspath(output), config)
        if "alignments" not in signatures:
            lines = readme.splitlines(keepends=True)
            readme = "".join(line for line in lines if "`alignments`" not in line)
        write_description(folder, config, ALIGNED_LENGTH if "alignments" in signatures else 0)
        _write(folder, "README.md", readme)
        write_checksums(folder)
        for file, content in _server_settings(name).items():
            _write(output, file, content)
        return _rename_to_next_version(folder, output)


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
    signatures = all_signatures(TextFunctions(model, tokenizers, decode), decode)
    if isinstance(model, Ensemble):
        del signatures["alignments"]  # attention weights are those of one model
    return module, {
        name: tf.function(function, input_signature=inputs, autograph=False)
        for name, (function, inputs) in signatures.items()
    }


def _rename_to_next_version(folder: str, output: str) -> str:
    """Renames a complete folder to the next version. Returns: its path."""
    while True:
        versions = [int(entry) for entry in os.listdir(output) if entry.isdigit()]
        path = os.path.join(output, str(max(versions, default=0) + 1))
        try:
            os.rename(folder, path)
            return path
        except OSError:
            if not os.path.exists(path):
                raise  # otherwise another export has just created this version


def _write(folder: str, name: str, content: str) -> None:
    with atomic_write(os.path.join(folder, name)) as file:
        file.write(content)


def import_messages() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Imports the protocol messages of a recorded request.

    Returns: the modules model_pb2, predict_pb2 and prediction_log_pb2.
    Raises: UserError when tensorflow-serving-api is not installed.
    """
    with explain_missing_package("tensorflow-serving-api"):
        from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2
    return model_pb2, predict_pb2, prediction_log_pb2


def _write_warm_up(
    folder: str, name: str, texts: list[str], signatures: Collection[str], decode: DecodeConfig
) -> None:
    """Records requests of these signatures of the model with this name."""
    model_pb2, predict_pb2, prediction_log_pb2 = import_messages()
    path = os.path.join(folder, "assets.extra", "tf_serving_warmup_requests")
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in _requests(texts, decode, signatures):
            spec = model_pb2.ModelSpec(name=name, signature_name=signature)
            tensors = {key: tf.make_tensor_proto(tf.constant(x)) for key, x in inputs.items()}
            request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors)
            predict_log = prediction_log_pb2.PredictLog(request=request)
            log = prediction_log_pb2.PredictionLog(predict_log=predict_log)
            writer.write(log.SerializeToString())


def _requests(
    texts: list[str], decode: DecodeConfig, signatures: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields pairs (signature, inputs): single texts, the eight longest texts, and all texts.

    The signatures with options have only a single text and the eight longest ones. No option is
    left out: where TensorFlow Serving batches requests, all inputs must have the same number of
    rows.
    """
    by_length = sorted(texts, key=len)
    singles, longest = [[text] for text in by_length[::8]], by_length[-8:]
    every = request_options(decode)
    for signature in signatures:
        inputs, options = SIGNATURES[signature]
        groups = [singles[0], longest] if options else [*singles, longest, by_length]
        for group in groups:
            columns: dict[str, Any] = {name: group for name in inputs}
            for name in options:
                value = tf.constant(every[name].default, every[name].dtype)
                columns[name] = tf.fill([len(group)], value)
            yield signature, columns


def warm_up_texts(tokenizer: Tokenizer) -> list[str]:
    """Source texts of 1 to 24 sub-words of the vocabulary of the source."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    pieces = [piece for piece in pieces if piece[0] not in "[<"]  # no special tokens, no bytes
    texts = ["".join(pieces[i : i + 1 + i % 24]) for i in range(WARM_UP_TEXTS)]
    return [text.replace("\u2581", " ").strip() or "." for text in texts]  # SentencePiece's space


def _server_settings(name: str) -> dict[str, str]:
    """The settings files of TensorFlow Serving: name -> content."""
    models = f"""\
        model_config_list {{
          config {{
            name: "{name}"
            base_path: "/models/{name}"
            model_platform: "tensorflow"
          }}
        }}
        """
    batching = f"""\
        # The server batches requests that arrive within 5 ms. It refuses requests when 100 batches
        # are waiting.
        max_batch_size {{ value: {MAX_BATCH_SIZE} }}
        batch_timeout_micros {{ value: 5000 }}
        max_enqueued_batches {{ value: 100 }}
        num_batch_threads {{ value: 2 }}
        """
    monitoring = """\
        prometheus_config {
          enable: true
          path: "/monitoring/prometheus/metrics"
        }
        """
    return {
        "models.config": textwrap.dedent(models),
        "batching_parameters.txt": textwrap.dedent(batching),
        "monitoring.config": textwrap.dedent(monitoring),
    }


def _readme(name: str, output: str, config: Config) -> str:
    """The README.md of a version, in Markdown."""
    decode = config.decode
    model = config.model
    beam = decode.beam_size
    penalty = f"{decode.length_penalty:g}"
    return f"""\
# {name}: {config.data.source} -> {config.data.target}

A Transformer ("Attention Is All You Need") with its tokenizer and its search. The beam size is
{beam}, the length penalty {penalty}. An output has at most {decode.extra_decode_length} sub-words
more than the input.

## Start a server

    docker run --rm -p 8500:8500 -p 8501:8501 -v '{output}:/models/{name}' tensorflow/serving \\
      --model_config_file=/models/{name}/models.config \\
      --monitoring_config_file=/models/{name}/monitoring.config \\
      --enable_batching --batching_parameters_file=/models/{name}/batching_parameters.txt

## Send a request

    curl http://localhost:8501/v1/models/{name}:predict \\
      -d '{{"instances": ["a sentence", "another sentence"]}}'

Without a server, TensorFlow needs the operations of tensorflow-text: `import tensorflow_text` comes
before `tf.saved_model.load`, and before `saved_model_cli`:

    python -c 'import tensorflow_text; from tensorflow.python.tools.saved_model_cli import main; \\
    main()' run --dir=. --tag_set=serve --signature_def=serving_default \\
      --input_exprs='text=["a sentence"]'

{_signature_table(beam)}
Options are values `[N]`, one for each text, and can be left out in a request.

{_option_table(decode)}

Scores are log-probabilities in nats. Those of translations are divided by
((5 + length) / 6) ^ {penalty}.

`alignments`: row t of `weights` is where the model attends when it predicts target sub-word t.

The result of a row does not depend on the other rows:

| text | result |
|---|---|
| blank | empty, score 0 |
| more than {model.pe_input:,} sub-words | empty, score -1e9 |
| `score`: a target of more than {model.pe_target:,} sub-words | empty, score -1e9 |
| `alignments`: more than {ALIGNED_LENGTH} sub-words | empty, no weights |
| invalid UTF-8 | read as U+FFFD |
| fewer hypotheses found than requested | the last are empty, with score -1e9 |

With these batching settings, TensorFlow Serving refuses a request of more than
{MAX_BATCH_SIZE} rows.
"""


def _signature_table(beam: int) -> str:
    """The table of the signatures, in Markdown."""
    score = "`log_probability` `[N]`, `token_log_probabilities` `[N, T]`, `tokens` `[N, T]`"
    tokens = "`source_tokens` `[N, S]`, `target_tokens` `[N, T]`"
    alignments = f"`translation` `[N]`, {tokens}, `weights` `[N, layers, heads, T, S]`"
    options = {
        name: "`text`; options " + ", ".join(f"`{option}`" for option in names)
        for name, (_, names) in SIGNATURES.items()
    }
    return f"""\
| `signature_name` | inputs, strings `[N]`; options | outputs |
|---|---|---|
| `serving_default` | `text` | `translation` `[N]`, `score` `[N]` |
| `nbest` | `text` | `translations` `[N, {beam}]` and `scores` `[N, {beam}]`, best first |
| `score` | `source`, `target` | {score} |
| `alignments` | `text` | {alignments} |
| `count_tokens` | `text` | `tokens` `[N]`, the number of source sub-words, without the end token |
| `translate_with_options` | {options["translate_with_options"]} | `translations` `[N, {beam}]`, \
`scores` `[N, {beam}]`, `count` `[N]`, the number of translations |
| `sample` | {options["sample"]} | `translation` `[N]`, `score` `[N]` |
| `alternatives` | {options["alternatives"]} | `translations`, `probabilities` and \
`scores`, a column for each of the most probable next sub-words |
"""


def _option_table(decode: DecodeConfig) -> str:
    """The table of the options, in Markdown."""
    rows = [
        f"| `{name}` | {option.dtype.name} | {option.meaning} | {option.range} | {option.default} |"
        for name, option in request_options(decode).items()
    ]
    return "\n".join(
        ["| option | type | meaning | range | default |", "|---|---|---|---|---|", *rows]
    )
