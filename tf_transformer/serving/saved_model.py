"""A trained model as a SavedModel: text in, text out, for TensorFlow Serving (Olston et al. 2017); and as a Keras file.

EXPORT_DIR/
  models.config batching_parameters.txt monitoring.config    settings of the server
  1/                                                         a version, which appears when it is whole
    saved_model.pb variables/ assets/                        the model
    assets.extra/tf_serving_warmup_requests                  requests that the server runs before it takes others
    README.md                                                signatures, and how to ask
    SHA256SUMS                                               of all files: sha256sum --check SHA256SUMS
"""

import hashlib
import itertools
import os
import pathlib

import tensorflow as tf

from tf_transformer.atomic_io import atomic_folder, atomic_write
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.config import check_model_name
from tf_transformer.data.sources import TfdsCorpus, open_corpus
from tf_transformer.errors import UserError
from tf_transformer.serving.signatures import ALIGNED_LENGTH, TextFunctions

WARM_UP_TEXTS = 32  # in the largest recorded request
MAX_BATCH_SIZE = 128  # texts in a request, or in requests that a server puts together; the graph divides them further


def export_saved_model(model_dir, output, choice=None, name="transformer", **decode):
    """Writes the next version of a model for serving.

    Args:
      model_dir: a model folder.
      output: EXPORT_DIR, made where it is not there. The version is one more than the largest in it.
      choice: which checkpoint, as for `model_folder.find`.
      name: of the model, for the server.
      **decode: settings of `DecodeConfig` to change.
    Returns: the path of the version.
    Raises: UserError when tensorflow-serving-api is missing, the name would not do in an address, or the model cannot be read.
    """
    check_model_name(name)
    _import_messages()  # before the seconds that reading takes
    model, tokenizers, config = load_model(model_dir, choice)
    config = config.replace(**decode)
    with atomic_folder(output) as folder:  # a server looks at names that are numbers only
        module, signatures = make_signatures(model, tokenizers, config.decode)
        tf.saved_model.save(module, folder, signatures=signatures)
        write_warm_up(folder, name, _warm_up_texts(config, tokenizers[0]))
        _write(folder, "README.md", _describe(name, os.path.abspath(output), config))
        _write_sums(folder)
        for file, content in _server_settings(name).items():
            _write(output, file, content)
        return _take_next_number(folder, output)


def make_signatures(model, tokenizers, decode):
    """The functions to serve.

    Args:
      model: a `Transformer`.
      tokenizers: of the source and of the target.
      decode: a `DecodeConfig`.
    Returns: a `tf.Module` that owns what they need; the functions by name, each from strings `[N]` to a dict:
      serving_default: text -> translation `[N]`, score `[N]`;
      nbest: text -> translations `[N, K]`, scores `[N, K]`;
      score: source, target -> log_probability `[N]`, token_log_probabilities `[N, T]`, tokens `[N, T]`;
      alignments: text -> translation `[N]`, source_tokens `[N, S]`, target_tokens `[N, T]`, weights `[N, L, H, T, S]`.
    """
    functions, module = TextFunctions(model, tokenizers, decode), tf.Module()
    # The model itself stays out of the module: what Keras tracks has names that a session, as in a server, does not find again.
    module.weights = [variable.value for variable in model.variables]
    module.tokenizers = [tokenizer.resource for tokenizer in tokenizers]

    def serving_default(text):
        translations, scores = functions.translate(text)
        return {"translation": translations[:, 0], "score": scores[:, 0]}

    def nbest(text):
        translations, scores = functions.translate(text, decode.beam_size)
        return {"translations": translations, "scores": scores}

    def score(source, target):
        names = ("log_probability", "token_log_probabilities", "tokens")
        return dict(zip(names, functions.score(source, target)))

    def alignments(text):
        names = ("translation", "source_tokens", "target_tokens", "weights")
        return dict(zip(names, functions.alignments(text)))

    text, source, target = (
        tf.TensorSpec([None], tf.string, name=name) for name in ("text", "source", "target")
    )
    arguments = {
        serving_default: [text],
        nbest: [text],
        score: [source, target],
        alignments: [text],
    }
    return module, {
        function.__name__: tf.function(function, input_signature=signature, autograph=False)
        for function, signature in arguments.items()
    }


def _take_next_number(folder, output):
    while True:
        versions = [int(entry) for entry in os.listdir(output) if entry.isdigit()]
        path = os.path.join(output, str(max(versions, default=0) + 1))
        try:
            os.rename(folder, path)
            return path
        except OSError:
            if not os.path.exists(path):
                raise  # else another export has taken this number just now


def _import_messages():
    try:
        from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2
    except ImportError:
        raise UserError(
            "the package tensorflow-serving-api is missing: pip install 'tf_transformer[serving]'"
        ) from None
    return model_pb2, predict_pb2, prediction_log_pb2


def write_warm_up(folder, name, texts):
    """Records requests of every signature that a server runs when it loads a version, so that the first real ones are quick.

    Args:
      folder: of the version.
      name: of the model.
      texts: source sentences of many lengths.
    """
    model_pb2, predict_pb2, prediction_log_pb2 = _import_messages()
    by_length = sorted(texts, key=len)
    groups = [[text] for text in by_length[:: max(1, len(texts) // 4)]] + [
        by_length[-8:],
        by_length,
    ]
    requests = [
        (signature, {"text": group})
        for signature in ("serving_default", "nbest", "alignments")
        for group in groups
    ]
    requests += [("score", {"source": group, "target": group}) for group in groups]
    path = os.path.join(folder, "assets.extra", "tf_serving_warmup_requests")
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in requests:
            spec = model_pb2.ModelSpec(name=name, signature_name=signature)
            tensors = {key: tf.make_tensor_proto(value) for key, value in inputs.items()}
            request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors)
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())


def _warm_up_texts(config, tokenizer):
    """Held-out sentences of the model's own corpus; where that is not at hand, sub-words of the vocabulary."""
    data = config.data
    try:
        corpus = open_corpus(data.data, data.source, data.target)
        if isinstance(corpus, TfdsCorpus):
            raise UserError("it would be downloaded")
        pairs = corpus.read("validation" if "validation" in corpus.splits else corpus.splits[0])
        texts = [source for source, _ in itertools.islice(pairs, WARM_UP_TEXTS) if source.strip()]
        if texts:
            return texts
    except UserError:
        pass
    words = [
        piece for piece in tokenizer.pieces(range(tokenizer.vocab_size)) if piece[0] not in "[<"
    ]  # neither symbols nor bytes
    return [
        "".join(words[i : i + 1 + i % 24]).replace("\u2581", " ").strip() or "."
        for i in range(WARM_UP_TEXTS)
    ]


def _write(folder, name, content):
    with atomic_write(os.path.join(folder, name)) as file:
        file.write(content)


def _write_sums(folder):
    paths = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in paths
    ]
    _write(folder, "SHA256SUMS", "".join(lines))


def _server_settings(name):
    """The files that a server is started with: name -> content."""
    return {
        "models.config": (
            f'model_config_list {{\n  config {{\n    name: "{name}"\n    base_path: "/models/{name}"\n'
            '    model_platform: "tensorflow"\n  }\n}\n'
        ),
        "batching_parameters.txt": (
            "# Requests that come within 5 ms are answered together; beyond 100 batches in waiting, the server refuses.\n"
            f"max_batch_size {{ value: {MAX_BATCH_SIZE} }}\nbatch_timeout_micros {{ value: 5000 }}\n"
            "max_enqueued_batches { value: 100 }\nnum_batch_threads { value: 2 }\n"
        ),
        "monitoring.config": 'prometheus_config {\n  enable: true\n  path: "/monitoring/prometheus/metrics"\n}\n',
    }


def _describe(name, output, config):
    decode, model = config.decode, config.model
    return f"""# {name}: {config.data.source} -> {config.data.target}

A Transformer ("Attention Is All You Need") with its tokenizer and its search: beam {decode.beam_size}, length penalty {decode.length_penalty:g},
outputs of at most the input's length + {decode.extra_decode_length} sub-words.

## Start

    docker run --rm -p 8500:8500 -p 8501:8501 -v '{output}:/models/{name}' tensorflow/serving \\
      --model_config_file=/models/{name}/models.config --monitoring_config_file=/models/{name}/monitoring.config \\
      --enable_batching --batching_parameters_file=/models/{name}/batching_parameters.txt

## Ask

    curl http://localhost:8501/v1/models/{name}:predict -d '{{"instances": ["a sentence", "another one"]}}'

| `signature_name` | inputs, strings `[N]` | outputs |
|---|---|---|
| `serving_default` | `text` | `translation` `[N]`, `score` `[N]` |
| `nbest` | `text` | `translations` `[N, {decode.beam_size}]` and `scores` `[N, {decode.beam_size}]`, best first |
| `score` | `source`, `target` | `log_probability` `[N]`, `token_log_probabilities` `[N, T]`, `tokens` `[N, T]` |
| `alignments` | `text` | `translation` `[N]`, `source_tokens` `[N, S]`, `target_tokens` `[N, T]`, `weights` `[N, layers, heads, T, S]` |

Scores are log-probabilities in nats, those of translations divided by ((5 + length) / 6) ^ {decode.length_penalty:g}. `weights` are those of
the decoder's attention on the source: where it looked when it wrote target sub-word t.

Every row has a result of its own, whatever stands in the others:

| text | result |
|---|---|
| blank | empty, score 0 |
| more than {model.pe_input:,} sub-words (for `score`, a target of more than {model.pe_target:,}) | empty, score -1e9 |
| more than {ALIGNED_LENGTH} sub-words, for `alignments` | empty, no weights |
| bytes that are no UTF-8 | read as U+FFFD |
| fewer hypotheses found than wanted | empty ones at the end, score -1e9 |

With these settings for batching, TensorFlow Serving refuses a request of more than {MAX_BATCH_SIZE} rows.
"""
