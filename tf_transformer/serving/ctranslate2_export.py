"""A trained model as a folder for CTranslate2 (Klein et al. 2020), a C++ engine for translating on processors, in float32 or int8.

    import ctranslate2, sentencepiece
    translator = ctranslate2.Translator("FOLDER")
    words = sentencepiece.SentencePieceProcessor("FOLDER/shared.model")
    pieces = words.encode("a sentence", out_type=str)
    (result,) = translator.translate_batch([pieces], beam_size=4, max_decoding_length=len(pieces) + 50)
    print(words.decode(result.hypotheses[0]))

With separate vocabularies, `source.model` encodes and `target.model` decodes. What CTranslate2 does by its own defaults: a source of more
than 1,024 sub-words and an output of more than 256 are cut off (`max_input_length`, `max_decoding_length`).
Its network is that of the paper, so each weight has its place there: a fused projection for queries, keys and values, and matrices
`[out, in]`. Its beam search divides scores by L ^ length_penalty, not by ((5 + L) / 6) ^ alpha, so with a penalty other than 0 it may
prefer another hypothesis than `search.beam_search`.
"""

import os

import numpy as np

from tf_transformer.atomic_io import atomic_folder
from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.data.tokenizer import save_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.model.embedding import positional_encoding
from tf_transformer.special_tokens import END, START, UNK


def write_ctranslate2_folder(model_dir, output, choice=None, quantization="float32"):
    """Converts a trained model.

    Args:
      model_dir: a model folder.
      output: the folder to write, which must not be there; it appears when it is whole.
      choice: which checkpoint, as for `model_folder.find`.
      quantization: "float32", or "int8" for matrices of 8-bit integers.
    Raises: UserError when the package ctranslate2 is missing, the output is there, the model cannot be read, or its heads have sizes
      that CTranslate2 does not know.
    """
    if os.path.exists(output):
        raise UserError(f"{output} is there already: remove it, or give another")
    _import_specs()  # before the seconds that reading takes
    model, tokenizers, config = load_model(model_dir, choice)
    spec = make_spec(
        model,
        config.model,
        [tokenizer.pieces(range(tokenizer.vocab_size)) for tokenizer in tokenizers],
    )
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    _write(spec, tokenizers, output)


def _import_specs():
    try:
        from ctranslate2 import specs
    except ImportError:
        raise UserError(
            "the package ctranslate2 is missing: pip install 'ctranslate2>=4.8'"
        ) from None
    return specs


def make_spec(model, sizes, words):
    """CTranslate2's description of a model, with its weights.

    Args:
      model: a `Transformer`.
      sizes: its `ModelConfig`.
      words: the sub-words of the source and those of the target, lists of strings in the order of their ids.
    Returns: a `ctranslate2.specs.TransformerSpec`.
    Raises: UserError as `write_ctranslate2_folder`.
    """
    depth = sizes.d_model // sizes.num_heads
    if (
        sizes.d_model % sizes.num_heads
        or sizes.key_dim not in (0, depth)
        or sizes.value_dim not in (0, depth)
    ):
        raise UserError(
            "CTranslate2 has only heads of depth d_model / num_heads: this model has another key_dim or value_dim"
        )
    spec = _import_specs().TransformerSpec.from_config(
        sizes.num_layers, sizes.num_heads, pre_norm=False
    )
    _fill(
        spec,
        {name: variable.numpy() for name, variable in checkpoint.named_weights(model).items()},
        sizes,
    )
    source, target = words
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = target[UNK], target[START], target[END]
    config.decoder_start_token, config.add_source_eos, config.layer_norm_epsilon = (
        target[START],
        True,
        model.encoder.enc_layers[0].layernorm1.epsilon,
    )
    spec.validate()
    return spec


def _write(spec, tokenizers, output):
    with atomic_folder(os.path.dirname(os.path.abspath(output))) as folder:
        spec.save(folder)
        save_tokenizers(tokenizers, folder)
        os.rename(folder, output)


def _fill(spec, weights, sizes):
    """Puts the weights, by their names in a checkpoint, into a CTranslate2 `TransformerSpec`; `sizes` is the `ModelConfig`."""
    shared = sizes.shared_embeddings
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        embeddings = stack.embeddings[0] if name == "encoder" else stack.embeddings
        embeddings.weight = weights["embedding/table" if shared else f"{name}/embedding/table"]
        stack.scale_embeddings = True  # by sqrt(d_model)
        stack.position_encodings.encodings = _positions(weights, name, sizes)
        for number, layer in enumerate(stack.layer, start=1):
            place = f"{name}/layer{number}"
            blocks = [(layer.self_attention, "mha"), (layer.ffn, "ffn")]
            if name == "decoder":
                blocks = [
                    (layer.self_attention, "mha1"),
                    (layer.attention, "mha2"),
                    (layer.ffn, "ffn"),
                ]
            for norm, (block, block_name) in enumerate(blocks, start=1):
                block.layer_norm.gamma = weights[f"{place}/layernorm{norm}/gamma"]
                block.layer_norm.beta = weights[f"{place}/layernorm{norm}/beta"]
                fill = _fill_feed_forward if block_name == "ffn" else _fill_attention
                fill(block, weights, f"{place}/{block_name}")
    if shared:
        spec.decoder.projection.weight = weights["embedding/table"]
    else:
        _fill_linear(spec.decoder.projection, weights, ["final_layer"])


def _positions(weights, name, sizes):
    if sizes.positional_encoding == "learned":
        return weights[f"{name}/positions/pos_encoding"][0]
    return positional_encoding(
        sizes.pe_input if name == "encoder" else sizes.pe_target, sizes.d_model
    )[0].numpy()


def _fill_attention(block, weights, place):
    """Self-attention has one product for queries, keys and values; attention on the source one for queries, one for keys and values."""
    wq, wk, wv, dense = (f"{place}/{name}" for name in ("wq", "wk", "wv", "dense"))
    products = [[wq, wk, wv], [dense]] if len(block.linear) == 2 else [[wq], [wk, wv], [dense]]
    for linear, names in zip(block.linear, products, strict=True):
        _fill_linear(linear, weights, names)


def _fill_feed_forward(block, weights, place):
    _fill_linear(block.linear_0, weights, [f"{place}/inner"])
    _fill_linear(block.linear_1, weights, [f"{place}/outer"])


def _fill_linear(linear, weights, names):
    linear.weight = np.concatenate(
        [weights[f"{name}/kernel"] for name in names], axis=1
    ).T.copy()  # (out, in)
    linear.bias = np.concatenate([weights[f"{name}/bias"] for name in names])
