"""Names and layout of the weights of `MarianMTModel` (Hugging Face transformers).

Both libraries compute the same function with post-norm layers. They differ in:
- Names: `encoder/layer1/mha/wq/kernel` is `model.encoder.layers.0.self_attn.q_proj.weight` there.
- Matrices: `[in, out]` here, `[out, in]` there.
- Positional encoding: sines in even and cosines in odd columns here (Sec. 3.5), all sines and then
  all cosines there. So each dimension of width d_model is permuted, here and there.
- Layer normalization: epsilon is 1e-6 here, and always 1e-5 there.
"""

import re
from collections.abc import Iterable

import numpy as np

from tf_transformer.errors import UserError

Weights = dict[str, np.ndarray]

# Tensors with one row for each token.
SHARED = "model.shared.weight"
ENCODER_TABLE = "model.encoder.embed_tokens.weight"
DECODER_TABLE = "model.decoder.embed_tokens.weight"
PROJECTION = "lm_head.weight"
BIAS = "final_logits_bias"

_TOKEN_TENSORS = {
    "embedding/table": SHARED,
    "encoder/embedding/table": ENCODER_TABLE,
    "decoder/embedding/table": DECODER_TABLE,
    "final_layer/kernel": PROJECTION,
    "final_layer/bias": BIAS,
}
_SUB_LAYERS = {
    "encoder": {
        "mha": "self_attn",
        "layernorm1": "self_attn_layer_norm",
        "layernorm2": "final_layer_norm",
    },
    "decoder": {
        "mha1": "self_attn",
        "mha2": "encoder_attn",
        "layernorm1": "self_attn_layer_norm",
        "layernorm2": "encoder_attn_layer_norm",
        "layernorm3": "final_layer_norm",
    },
}
_PARTS = {
    "wq": "q_proj", "wk": "k_proj", "wv": "v_proj", "dense": "out_proj",
    "ffn/inner": "fc1", "ffn/outer": "fc2",
    "kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias",
}  # fmt: skip
# The dimension of width d_model of an array in a checkpoint.
_WIDTH_AXES = {
    r"/table": 1,
    r"/(wq|wk|wv|inner)/kernel|final_layer/kernel": 0,
    r"/(dense|outer)/kernel": 1,
    r"/(dense|outer)/bias": 0,
    r"/(gamma|beta)": 0,
}


def marian_name(name: str) -> str:
    """Returns the name in a `MarianMTModel` of an array of a checkpoint."""
    if name in _TOKEN_TENSORS:
        return _TOKEN_TENSORS[name]
    stack, layer, sub_layer, *parts = name.split("/")
    number = int(layer.removeprefix("layer")) - 1
    if sub_layer == "ffn":
        names = [_PARTS[f"ffn/{parts[0]}"], _PARTS[parts[1]]]
    else:
        names = [_SUB_LAYERS[stack][sub_layer], *(_PARTS[part] for part in parts)]
    return ".".join(["model", stack, "layers", str(number), *names])


def _sines_then_cosines(d_model: int) -> np.ndarray:
    """The columns of our positional encoding in the order of Marian's."""
    return np.concatenate([np.arange(0, d_model, 2), np.arange(1, d_model, 2)])


def _width_axis(name: str) -> int | None:
    """The dimension of width d_model of an array in a checkpoint; None where it has none."""
    for pattern, axis in _WIDTH_AXES.items():
        if re.search(f"({pattern})$", f"/{name}"):
            return axis
    return None


def to_marian(weights: Weights, d_model: int) -> Weights:
    """Converts the weights of a checkpoint.

    Args:
      weights: arrays by their names in a checkpoint.
      d_model: width.
    Returns: tensors by their names in a `MarianMTModel`.
    """
    order = _sines_then_cosines(d_model)
    tensors = {}
    for name, array in weights.items():
        axis = _width_axis(name)
        tensor = array if axis is None else np.take(array, order, axis)
        tensor = tensor.T if name.endswith("kernel") else tensor
        tensor = tensor[np.newaxis] if marian_name(name) == BIAS else tensor
        tensors[marian_name(name)] = np.ascontiguousarray(tensor)
    return tensors


def from_marian(tensors: Weights, names: Iterable[str], d_model: int) -> Weights:
    """Converts the weights of a `MarianMTModel`, the inverse of `to_marian`.

    Args:
      tensors: by their names in a `MarianMTModel`.
      names: of the arrays of the checkpoint.
      d_model: width.
    Returns: float32 arrays by these names.
    Raises: UserError when a tensor is missing.
    """
    order = np.argsort(_sines_then_cosines(d_model))
    weights = {}
    for name in names:
        tensor = _tensor(tensors, marian_name(name))
        tensor = tensor[0] if marian_name(name) == BIAS else tensor
        array = tensor.T if name.endswith("kernel") else tensor
        axis = _width_axis(name)
        array = array if axis is None else np.take(array, order, axis)
        weights[name] = array.astype(np.float32)
    return weights


def _tensor(tensors: Weights, name: str) -> np.ndarray:
    if name not in tensors:
        raise UserError(f"the weights have no tensor {name}: this is not a MarianMTModel")
    return tensors[name]


def with_all_tables(tensors: Weights, shared: bool, tied: bool) -> Weights:
    """Adds the tables that a file holds only once, under one of their names, and the bias.

    Args:
      tensors: of a `MarianMTModel`.
      shared: whether encoder and decoder have one embedding.
      tied: whether the output projection is the embedding of the decoder.
    """
    names = [SHARED, ENCODER_TABLE, DECODER_TABLE] if shared else [DECODER_TABLE]
    if tied:
        names.append(PROJECTION)
    stored = next((name for name in names if name in tensors), names[0])
    tensors = {**dict.fromkeys(names, _tensor(tensors, stored)), **tensors}
    no_bias = np.zeros((1, len(_tensor(tensors, PROJECTION))), np.float32)
    return {BIAS: no_bias, **tensors}
