"""Export of a trained model for CTranslate2 (Klein et al. 2020).

CTranslate2 is a C++ engine that translates on CPUs, in float32 or int8:

    import ctranslate2, sentencepiece
    translator = ctranslate2.Translator("FOLDER")
    source = sentencepiece.SentencePieceProcessor("FOLDER/source.model")
    target = sentencepiece.SentencePieceProcessor("FOLDER/target.model")
    pieces = source.encode("a sentence", out_type=str)
    (result,) = translator.translate_batch(
        [pieces], beam_size=4, max_decoding_length=len(pieces) + 50
    )
    print(target.decode(result.hypotheses[0]))

Where sources and targets have one vocabulary and one normalizer, it is `shared.model`.

The network is the same. CTranslate2 differs in:
- Layout: one fused projection for queries, keys and values, and kernels `[out, in]`.
- Length limits: by default it truncates a source of more than 1,024 sub-words and an output of
  more than 256 (`max_input_length`, `max_decoding_length`).
- Beam search: it divides scores by L ^ length_penalty, not by ((5 + L) / 6) ^ alpha. With a
  length penalty other than 0, it may prefer another hypothesis than `decoding.beam_search`.
  `ctranslate2_translator` ranks the hypotheses by our formula.

Besides the files of CTranslate2, the folder has the SentencePiece models, `assets.extra/model.json`
with the search and the limits, and `SHA256SUMS`.
"""

from types import ModuleType
from typing import Any

import numpy as np

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.checkpoints.model_folder import find_model_dir
from tf_transformer.config import ModelConfig
from tf_transformer.data.tokenizer import save_tokenizers
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.output_folder import check_new, new_output
from tf_transformer.export.versions import write_description
from tf_transformer.files import write_checksums
from tf_transformer.model.embedding import positional_encoding
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import END, START, UNK

Weights = dict[str, np.ndarray]  # by their names in a checkpoint
ATTENTION = {  # the attention blocks of a layer, by their names there and here
    "encoder": {"self_attention": "mha"},
    "decoder": {"self_attention": "mha1", "attention": "mha2"},
}


def write_ctranslate2_folder(
    model_dir: str,
    output: str,
    checkpoint: str | None = None,
    quantization: str = "float32",
    **decode: Any,
) -> None:
    """Converts a trained model.

    Args:
      model_dir: a model folder, or the name of a built-in model.
      output: the folder to write. It must not exist, and it appears when it is complete.
      checkpoint: a name or a path, as for `checkpoints.model_folder.find`.
      quantization: "float32", or "int8" for matrices of 8-bit integers.
      **decode: fields of `DecodeConfig` to change, for `CTranslate2Translator` and our server.
    Raises: UserError when the package ctranslate2 is not installed, the output exists, the model
      cannot be read, CTranslate2 does not support the sizes of its heads, or the output cannot be
      written.
    """
    check_new(output)
    _import_specs()  # fails before the model is loaded, which takes seconds
    model, tokenizers, config = load_model(model_dir, checkpoint)
    config = config.replace(**decode)
    vocabularies = [tokenizer.pieces(range(tokenizer.vocab_size)) for tokenizer in tokenizers]
    spec = make_spec(model, config.model, vocabularies)
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    with new_output(output) as folder:
        spec.save(folder)
        save_tokenizers(tokenizers, folder)
        write_description(folder, config, 0, find_model_dir(model_dir))
        write_checksums(folder)


def _import_specs() -> ModuleType:
    """Imports `ctranslate2.specs`. Raises: UserError when ctranslate2 is not installed."""
    with explain_missing_package("ctranslate2", "ctranslate2"):
        from ctranslate2 import specs
    return specs


def make_spec(model: Transformer, sizes: ModelConfig, vocabularies: list[list[str]]) -> Any:
    """Builds a `ctranslate2.specs.TransformerSpec`: a model with its weights.

    Args:
      model, sizes: the model, and its configuration.
      vocabularies: the sub-words of the source and of the target, in the order of their ids.
    Raises: UserError as `write_ctranslate2_folder`.
    """
    depth = sizes.d_model / sizes.num_heads
    if sizes.depth != depth or sizes.value_depth != depth:
        raise UserError(
            "CTranslate2 supports only heads of depth d_model / num_heads: this model has another "
            "key_dim or value_dim"
        )
    specs = _import_specs()
    activation = {"relu": specs.Activation.RELU, "swish": specs.Activation.SWISH}
    spec = specs.TransformerSpec.from_config(
        (sizes.encoder_layers, sizes.decoder_layers),
        sizes.num_heads,
        pre_norm=sizes.norm == "pre",
        activation=activation[sizes.activation],
    )
    variables = checkpoint.named_weights(model)
    weights = {name: variable.numpy() for name, variable in variables.items()}
    _set_weights(spec, weights, sizes)
    source, target = vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = spec.config
    config.unk_token = target[UNK]
    config.bos_token = target[START]
    config.eos_token = target[END]
    config.decoder_start_token = target[START]
    config.add_source_eos = True
    config.layer_norm_epsilon = model.encoder.enc_layers[0].layernorm1.epsilon
    spec.validate()
    return spec


def _set_weights(spec: Any, weights: Weights, sizes: ModelConfig) -> None:
    """Copies the weights of a model into a `TransformerSpec`."""
    _set_embedding(spec.encoder, spec.encoder.embeddings[0], weights, "encoder", sizes)
    _set_embedding(spec.decoder, spec.decoder.embeddings, weights, "decoder", sizes)
    for stack, attention in ATTENTION.items():
        for number, layer in enumerate(getattr(spec, stack).layer, start=1):
            name = f"{stack}/layer{number}"
            for norm, (block, ours) in enumerate(attention.items(), start=1):
                _set_attention(getattr(layer, block), weights, f"{name}/{ours}")
                _set_layer_norm(getattr(layer, block), weights, f"{name}/layernorm{norm}")
            _set_linear(layer.ffn.linear_0, weights, [f"{name}/ffn/inner"])
            _set_linear(layer.ffn.linear_1, weights, [f"{name}/ffn/outer"])
            _set_layer_norm(layer.ffn, weights, f"{name}/layernorm{len(attention) + 1}")
        if sizes.norm == "pre":
            _set_layer_norm(getattr(spec, stack), weights, f"{stack}/layernorm")
    if sizes.shared_embeddings:
        spec.decoder.projection.weight = weights["embedding/table"]
    else:
        _set_linear(spec.decoder.projection, weights, ["final_layer"])


def _set_embedding(
    stack: Any, embedding: Any, weights: Weights, name: str, sizes: ModelConfig
) -> None:
    """Sets the embedding and the positional encoding of the encoder or decoder."""
    table = "embedding/table" if sizes.shared_embeddings else f"{name}/embedding/table"
    embedding.weight = weights[table]
    stack.scale_embeddings = True  # by sqrt(d_model)
    if sizes.positional_encoding == "learned":
        encodings = weights[f"{name}/positions/pos_encoding"][0]
    else:
        length = sizes.pe_input if name == "encoder" else sizes.pe_target
        encodings = positional_encoding(length, sizes.d_model)[0].numpy()
    stack.position_encodings.encodings = encodings


def _set_attention(block: Any, weights: Weights, name: str) -> None:
    """Sets an attention block.

    Self-attention has a fused projection of queries, keys and values. Cross-attention has a
    projection of queries and a fused projection of keys and values.
    """
    wq, wk, wv, dense = (f"{name}/{part}" for part in ("wq", "wk", "wv", "dense"))
    if len(block.linear) == 2:
        projections = [[wq, wk, wv], [dense]]
    else:
        projections = [[wq], [wk, wv], [dense]]
    for linear, names in zip(block.linear, projections, strict=True):
        _set_linear(linear, weights, names)


def _set_layer_norm(block: Any, weights: Weights, name: str) -> None:
    block.layer_norm.gamma = weights[f"{name}/gamma"]
    block.layer_norm.beta = weights[f"{name}/beta"]


def _set_linear(linear: Any, weights: Weights, names: list[str]) -> None:
    """Sets a projection to the concatenation of the named projections."""
    kernel = np.concatenate([weights[f"{name}/kernel"] for name in names], axis=1)  # (in, out)
    linear.weight = kernel.T.copy()  # (out, in)
    linear.bias = np.concatenate([weights[f"{name}/bias"] for name in names])  # (out)
