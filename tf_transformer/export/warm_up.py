"""Recorded warm-up requests of an exported model.

TensorFlow Serving and `tf-transformer serve` run them when they load a version. The first requests
of clients then do not wait for initialization.
"""

import itertools
import os
from collections.abc import Collection
from types import ModuleType
from typing import Any

import tensorflow as tf

from tf_transformer.config import Config, DataConfig, DecodeConfig
from tf_transformer.data.readers import corpus_of_run
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import SERVING_API, UserError, explain_missing_package
from tf_transformer.export.option_signatures import OPTIONS_OF, request_options

WARM_UP_TEXTS = 32  # in the largest recorded request
SPACE = "\u2581"  # SentencePiece writes it for a space


def import_messages() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Imports the protocol messages of a recorded request.

    Returns: the modules model_pb2, predict_pb2 and prediction_log_pb2.
    Raises: UserError when tensorflow-serving-api is not installed.
    """
    with explain_missing_package(SERVING_API):
        from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2
    return model_pb2, predict_pb2, prediction_log_pb2


def write_warm_up(
    folder: str, name: str, texts: list[str], signatures: Collection[str], decode: DecodeConfig
) -> None:
    """Records requests of signatures.

    Args:
      folder: of the version.
      name: of the model.
      texts: source sentences of many lengths.
      signatures: names.
      decode: the `DecodeConfig` of the export.
    """
    model_pb2, predict_pb2, prediction_log_pb2 = import_messages()
    path = os.path.join(folder, "assets.extra", "tf_serving_warmup_requests")
    os.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in _requests(texts, decode):
            if signature not in signatures:
                continue
            spec = model_pb2.ModelSpec(name=name, signature_name=signature)
            tensors = {key: tf.make_tensor_proto(value) for key, value in inputs.items()}
            request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors)
            predict_log = prediction_log_pb2.PredictLog(request=request)
            log = prediction_log_pb2.PredictionLog(predict_log=predict_log)
            writer.write(log.SerializeToString())


def _requests(texts: list[str], decode: DecodeConfig) -> list[tuple[str, dict[str, Any]]]:
    """Lists pairs (signature, inputs): single texts, the eight longest texts, and all texts.

    The signatures with options have only a single text and the eight longest ones. No option is
    left out: where TensorFlow Serving batches requests, all inputs must have the same number of
    rows.
    """
    by_length = sorted(texts, key=len)
    quarter = max(1, len(texts) // 4)
    groups = [[text] for text in by_length[::quarter]]
    groups += [by_length[-8:], by_length]
    requests: list[tuple[str, dict[str, Any]]] = [
        (signature, {"text": group})
        for signature in ("serving_default", "nbest", "alignments", "count_tokens")
        for group in groups
    ]
    requests += [("score", {"source": group, "target": group}) for group in groups]
    options = request_options(decode)
    for signature, names in OPTIONS_OF.items():
        for group in (groups[0], by_length[-8:]):
            inputs: dict[str, Any] = {"text": group}
            for name in names:
                value = tf.constant(options[name].default, options[name].dtype)
                inputs[name] = tf.fill([len(group)], value).numpy()
            requests.append((signature, inputs))
    return requests


def warm_up_texts(config: Config, tokenizer: Tokenizer) -> list[str]:
    """Chooses source texts of many lengths.

    Args:
      config: the `Config` of the model.
      tokenizer: of the source.
    Returns: held-out sentences of the model's corpus. If the corpus is not available, sequences of
      sub-words of the vocabulary.
    """
    return _held_out_sentences(config.data) or _sub_word_sequences(tokenizer)


def _held_out_sentences(data: DataConfig) -> list[str]:
    """Source sentences of the corpus of a `DataConfig`; [] if it is not available."""
    try:
        corpus = corpus_of_run(data)
        if corpus.downloads:
            return []
        split = "validation" if "validation" in corpus.splits else corpus.splits[0]
        pairs = itertools.islice(corpus.read(split), WARM_UP_TEXTS)
        return [source for source, _ in pairs if source.strip()]
    except (UserError, OSError):
        return []


def _sub_word_sequences(tokenizer: Tokenizer) -> list[str]:
    """Sequences of 1 to 24 sub-words of the vocabulary."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    pieces = [piece for piece in pieces if piece[0] not in "[<"]  # no special tokens, no bytes
    texts = []
    for i in range(WARM_UP_TEXTS):
        length = 1 + i % 24
        text = "".join(pieces[i : i + length]).replace(SPACE, " ").strip()
        texts.append(text or ".")
    return texts
