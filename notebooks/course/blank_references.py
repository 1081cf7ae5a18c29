"""What the blanks of notebook 04 must compute, in NumPy: right and wrong versions.

Each function computes the outputs of a blank. Its argument `wrong` is the name of a wrong
version, or "" for the right one; the dicts have the messages of the wrong versions.

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head,
V vocabulary.
"""

import functools

import numpy as np

HIDE = -1e9


def softmax(scores, axis=-1):
    """Softmax over an axis."""
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def attention(q, k, v, mask=None, wrong=""):
    """Scaled dot-product attention: output, weights."""
    depth = {"d_k": k.shape[-1], "keys": k.shape[-2] ** 0.5, "not scaled": 1}
    divisor = depth.get(wrong, k.shape[-1] ** 0.5)
    if wrong == "multiplied":
        divisor = 1 / divisor
    scores = q @ k.swapaxes(-1, -2) / divisor  # (..., T, S)
    shown = 1 if mask is None else 1 - mask
    if wrong == "scores zeroed":
        scores = scores * shown
    elif wrong == "mask inverted" and mask is not None:
        scores = scores + HIDE * shown
    elif mask is not None and wrong not in ("no mask", "after softmax"):
        scores = scores + HIDE * mask
    weights = softmax(scores, -2 if wrong == "columns" else -1)
    if wrong == "after softmax":
        weights = weights * shown
    if wrong == "no softmax":
        weights = scores
    return weights @ v, weights


ATTENTION_WRONG = {
    "not scaled": (
        "the scores are not divided by sqrt(d_k): before the softmax they are "
        "sqrt(d_k) times too large"
    ),
    "d_k": "the scores are divided by d_k, not by sqrt(d_k)",
    "keys": "the scores are divided by the square root of the number of keys, S",
    "multiplied": "the scores are multiplied by sqrt(d_k), not divided by it",
    "columns": (
        "the columns of the weights sum to 1, not the rows: the softmax goes over the "
        "queries, and must go over the keys, the last axis"
    ),
    "no softmax": "the weights are the scores: there is no softmax",
    "no mask": "the mask is not used: hidden positions still get weight",
    "mask inverted": "the mask is inverted: 1 must hide a position, 0 show it",
    "after softmax": (
        "hidden weights are set to 0 after the softmax, so the rows of the weights do "
        "not sum to 1: hide the scores before it"
    ),
    "scores zeroed": (
        "hidden scores are set to 0, and a score of 0 still gets weight: add -1e9 to them"
    ),
}


def affine(x, weights, name):
    """x W + b, with the weights of a `Dense` layer."""
    return x @ weights[f"{name}.kernel"] + weights[f"{name}.bias"]


def multi_head(v, k, q, mask, weights, prefix="", num_heads=3, wrong=""):
    """Multi-head attention: output, weights of the heads."""
    wq, wk, wv, dense = (f"{prefix}{name}" for name in ("wq", "wk", "wv", "dense"))
    if wrong == "q and v exchanged":
        q, v = v, q
    if wrong == "one projection":
        wk = wv = wq
    if wrong == "wq and wk exchanged":
        wq, wk = wk, wq
    if wrong == "wk and wv exchanged":
        wk, wv = wv, wk

    def split(x):
        batch, length, width = x.shape
        if wrong == "no transpose":
            return x.reshape(batch, num_heads, length, width // num_heads)
        if wrong == "heads last":
            x = x.reshape(batch, length, width // num_heads, num_heads)
            return x.transpose(0, 3, 1, 2)
        x = x.reshape(batch, length, num_heads, width // num_heads)
        return x.transpose(0, 2, 1, 3)

    parts = affine(q, weights, wq), affine(k, weights, wk), affine(v, weights, wv)
    scale = {"d_model": "d_model", "no mask": "no mask"}.get(wrong, "")
    heads = [split(part) for part in parts]
    if scale == "d_model":
        heads[0] = heads[0] / num_heads**0.5  # sqrt(d_model) = sqrt(H) sqrt(d_k)
    output, attention_weights = attention(*heads, mask, wrong=scale)
    if wrong != "no merge":
        output = output.swapaxes(1, 2)
    output = output.reshape(q.shape[0], q.shape[1], -1)
    if wrong != "no dense":
        output = affine(output, weights, dense)
    return output, attention_weights


MULTI_HEAD_WRONG = {
    "q and v exchanged": (
        "the first argument of `call` is v and the third is q: yours are exchanged"
    ),
    "one projection": "q, k and v must have projections of their own: wq, wk and wv",
    "wq and wk exchanged": "wq must be applied to q, and wk to k: yours are exchanged",
    "wk and wv exchanged": "wk must be applied to k, and wv to v: yours are exchanged",
    "no transpose": (
        "split_heads cuts the sequence into pieces, not the vectors: (B, S, D) must "
        "become (B, S, H, K) first, and (B, H, S, K) by a transpose after it"
    ),
    "heads last": (
        "split_heads gives head 1 each H-th column: reshape to (B, S, H, K), not to "
        "(B, S, K, H), so that head 1 gets the first K columns"
    ),
    "no merge": (
        "merge_heads mixes the positions: transpose (B, H, T, K) to (B, T, H, K) before the reshape"
    ),
    "no dense": "the last projection W^O, self.dense, is missing",
    "no mask": "the mask does not reach the attention: padding still gets weight",
    "d_model": "the scores are divided by sqrt(d_model), not by sqrt(d_k) of one head",
}


def layer_norm(x, gamma, beta, epsilon=1e-6, wrong=""):
    """Layer normalization."""
    axis = {"everything": None, "positions": -2, "all": tuple(range(1, x.ndim)), "batch": 0}.get(
        wrong, -1
    )
    mean = x.mean(axis, keepdims=True)
    variance = np.square(x - mean).mean(axis, keepdims=True)
    if wrong == "n - 1":
        variance = variance * x.shape[-1] / (x.shape[-1] - 1)
    if wrong == "no mean":
        mean = 0
    divisor = np.sqrt(variance + epsilon)
    if wrong == "epsilon outside":
        divisor = np.sqrt(variance) + epsilon
    if wrong == "no epsilon":
        divisor = np.sqrt(variance)
    if wrong == "epsilon fixed":
        divisor = np.sqrt(variance + 1e-6)
    if wrong == "variance":
        divisor = variance + epsilon
    normalized = (x - mean) / divisor
    if wrong == "beta first":
        return gamma * (normalized + beta)
    gamma = 1 if wrong in ("no gamma", "no gamma, no beta") else gamma
    beta = 0 if wrong in ("no beta", "no gamma, no beta") else beta
    return gamma * normalized + beta


LAYER_NORM_WRONG = {
    "everything": "the mean goes over all numbers: axis=-1 is missing",
    "positions": "the mean goes over the positions, and must go over the last axis, D",
    "all": (
        "the mean goes over all positions and columns of a sentence, and must go over "
        "the last axis alone"
    ),
    "batch": "the mean goes over the batch, and must go over the last axis, D",
    "variance": "x - mean is divided by the variance, not by its square root",
    "no mean": "the mean is not subtracted",
    "n - 1": "the variance is divided by D - 1; here it is the mean of D squares",
    "no gamma": "gamma is not used",
    "no beta": "beta is not used",
    "no gamma, no beta": "gamma and beta are not used",
    "beta first": "beta must be added after the product with gamma",
    "epsilon outside": "epsilon is outside the square root, and must be inside",
    "epsilon fixed": "epsilon is always 1e-6: use self.epsilon",
    "no epsilon": "epsilon is not used",
}


def fixed_dropout(x):
    """What dropout does in `blank_runner`."""
    return x * np.where(np.arange(x.shape[-1]) % 3 == 0, 0.0, 1.5)


def add_and_norm(x, output, number, weights, training, wrong):
    """LayerNorm(x + Dropout(Sublayer(x))), of sub-layer 1, 2 or 3."""
    dropped = training and wrong not in ("no dropout", f"no dropout {number}")
    if wrong == "dropout always":
        dropped = True
    if dropped and not wrong.startswith("dropout on"):
        output = fixed_dropout(output)
    total = output if wrong == f"no residual {number}" else x + output
    if wrong == "no residuals":
        total = output
    if dropped and wrong == "dropout on the sum":
        total = fixed_dropout(total)
    if wrong in ("no norms", f"no norm {number}"):
        return total
    norm = f"layernorm{number}"
    if wrong == "layernorms exchanged":
        norm = {"layernorm1": "layernorm2", "layernorm2": "layernorm1"}.get(norm, norm)
    if wrong in ("layernorm inside", f"layernorm inside {number}"):
        return x + layer_norm(output, *norm_weights(weights, norm))
    result = layer_norm(total, *norm_weights(weights, norm))
    return fixed_dropout(result) if dropped and wrong == "dropout on the norm" else result


def norm_weights(weights, name):
    """gamma and beta of a layer normalization."""
    return weights[f"{name}.gamma"], weights[f"{name}.beta"]


def feed_forward(x, weights):
    """The position-wise feed-forward network."""
    return affine(np.maximum(0, affine(x, weights, "ffn.0")), weights, "ffn.1")


def pre_normed(x, number, weights, wrong):
    """The input of a sub-layer: x, or its normalization in a pre-norm layer."""
    if wrong != "pre-norm":
        return x
    return layer_norm(x, *norm_weights(weights, f"layernorm{number}"))


def frame_of(weights, training, wrong):
    """`add_and_norm` of a layer: function(x, output of a sub-layer, its number)."""
    wrong = "no norms" if wrong == "pre-norm" else wrong
    return functools.partial(add_and_norm, weights=weights, training=training, wrong=wrong)


def encoder_layer(x, training, mask, weights, wrong=""):
    """One layer of the encoder."""
    mha_mask = None if wrong == "no mask" else mask
    frame = frame_of(weights, training, wrong)
    inner = pre_normed(x, 1, weights, wrong)
    attended = multi_head(inner, inner, inner, mha_mask, weights, "mha.")[0]
    out1 = frame(x, attended, 1)
    below = x if wrong == "residual from x" else out1
    inner = x if wrong == "ffn of x" else pre_normed(out1, 2, weights, wrong)
    return (frame(below, feed_forward(inner, weights), 2),)


LAYER_WRONG = {
    "no residuals": "the residual connections are missing: LayerNorm(x + ...)",
    "no norms": "the layer normalizations are missing",
    "pre-norm": (
        "the normalization is before the sub-layers (pre-norm); the paper normalizes "
        "the sum after them"
    ),
    "layernorm inside": (
        "the sub-layer's output is normalized and then added; the paper normalizes the sum"
    ),
    "layernorm inside 1": (
        "the first sub-layer's output is normalized and then added; the paper normalizes the sum"
    ),
    "layernorm inside 2": (
        "the second sub-layer's output is normalized and then added; the paper normalizes the sum"
    ),
    "layernorms exchanged": "layernorm1 and layernorm2 are exchanged",
    "dropout always": "dropout is applied with training=False: pass training=training",
    "no dropout": "there is no dropout with training=True",
    "dropout on the sum": (
        "dropout is on the sum x + ..., and must be on the sub-layer's output alone"
    ),
    "dropout on the norm": (
        "dropout is on the layer's normalized output, and must be on the sub-layer's "
        "output, before the sum"
    ),
}
ENCODER_WRONG = {
    **LAYER_WRONG,
    "no residual 1": "the residual connection around the attention is missing",
    "no residual 2": "the residual connection around the FFN is missing",
    "no norm 1": "the first layer normalization is missing",
    "no norm 2": "the second layer normalization is missing",
    "residual from x": (
        "the second residual connection must start at the first sub-layer's output out1, not at x"
    ),
    "ffn of x": "the feed-forward network must get the first sub-layer's output, not x",
    "no dropout 1": "there is no dropout on the attention's output with training=True",
    "no dropout 2": "there is no dropout on the FFN's output with training=True",
    "no mask": "the mask does not reach the attention: padding still gets weight",
}


def decoder_layer(x, enc_output, training, masks, weights, wrong=""):
    """One layer of the decoder: output, weights of both attention blocks."""
    look_ahead_mask, padding_mask = masks
    if wrong == "masks exchanged":
        look_ahead_mask, padding_mask = padding_mask, look_ahead_mask
    if wrong == "no look-ahead mask":
        look_ahead_mask = None
    if wrong == "no padding mask":
        padding_mask = None
    frame = frame_of(weights, training, wrong)
    inner = pre_normed(x, 1, weights, wrong)
    attn1, block1 = multi_head(inner, inner, inner, look_ahead_mask, weights, "mha1.")
    out1 = frame(x, attn1, 1)
    values = keys = enc_output
    query = x if wrong == "query x" else pre_normed(out1, 2, weights, wrong)
    if wrong == "keys from the decoder":
        values = keys = out1
    if wrong == "query from the encoder":
        values = keys = query
        query = enc_output
    if wrong == "order q, k, v":
        values, query = query, values
    second = "mha1." if wrong == "mha1 twice" else "mha2."
    attn2, block2 = multi_head(values, keys, query, padding_mask, weights, second)
    out2 = frame(x if wrong == "second residual from x" else out1, attn2, 2)
    inner = out1 if wrong == "ffn of out1" else pre_normed(out2, 3, weights, wrong)
    below = out1 if wrong == "third residual from out1" else out2
    out3 = frame(below, feed_forward(inner, weights), 3)
    if wrong == "weights exchanged":
        block1, block2 = block2, block1
    return out3, block1, block2


DECODER_WRONG = {
    **LAYER_WRONG,
    "no residual 1": "the residual connection around the self-attention is missing",
    "no residual 2": "the residual connection around the second attention is missing",
    "no residual 3": "the residual connection around the FFN is missing",
    "no norm 1": "the first layer normalization is missing",
    "no norm 2": "the second layer normalization is missing",
    "no norm 3": "the third layer normalization is missing",
    "query x": "the queries of the second attention must be out1, not x",
    "query from the encoder": (
        "the second attention must take its queries from the decoder and its keys and "
        "values from the encoder output; yours are exchanged"
    ),
    "keys from the decoder": (
        "the second attention must take keys and values from the encoder output"
    ),
    "order q, k, v": (
        "the arguments of self.mha2 come in the order v, k, q: enc_output, enc_output, out1"
    ),
    "second residual from x": (
        "the second residual connection must start at the first sub-layer's output out1, not at x"
    ),
    "ffn of out1": "the feed-forward network must get the second sub-layer's output, not out1",
    "third residual from out1": (
        "the third residual connection must start at the second sub-layer's output out2, not out1"
    ),
    "mha1 twice": "the second attention must be self.mha2; yours is self.mha1 again",
    "masks exchanged": "look_ahead_mask belongs to mha1 and padding_mask to mha2",
    "no look-ahead mask": ("look_ahead_mask does not reach the self-attention: it sees the future"),
    "no padding mask": "padding_mask does not reach the second attention",
    "weights exchanged": "the attention weights of the two blocks are exchanged",
    "no dropout 1": "there is no dropout on the self-attention with training=True",
    "no dropout 2": "there is no dropout on the second attention with training=True",
    "no dropout 3": "there is no dropout on the FFN's output with training=True",
}


def positions(position, d_model, wrong=""):
    """The positional encoding."""
    pos = np.arange(position)[:, np.newaxis] + (wrong == "from 1")
    column = np.arange(d_model)
    two_i = {"column": column, "i": column // 2}.get(wrong, column // 2 * 2)
    if wrong == "halves":
        two_i = 2 * (column % (d_model // 2))
    base = {"base 1000": 1000.0, "base e": np.e}.get(wrong, 10000.0)
    rates = base ** (-two_i / d_model)
    angles = pos / rates if wrong == "multiplied" else pos * rates
    is_sine = column < d_model // 2 if wrong == "halves" else column % 2 == 0
    if wrong == "exchanged":
        is_sine = ~is_sine
    if wrong == "only sine":
        is_sine = column >= 0
    table = np.where(is_sine, np.sin(angles), np.cos(angles))
    return (table if wrong == "no batch axis" else table[np.newaxis],)


POSITIONS_WRONG = {
    "column": (
        "the exponent of column 2i+1 must be that of column 2i: a sine and a cosine "
        "form a pair with one frequency"
    ),
    "i": "the exponent is i / d_model, and must be 2i / d_model",
    "halves": (
        "the sines are in the left half and the cosines in the right; the paper has "
        "them in turns: columns 0, 2, 4, ... and 1, 3, 5, ..."
    ),
    "exchanged": "the sines belong in the even columns, the cosines in the odd ones",
    "only sine": "all columns are sines; the odd ones must be cosines",
    "from 1": "the first position is 0, not 1",
    "multiplied": "pos must be divided by 10000^(2i/d_model), not multiplied",
    "base 1000": "the base is 10000",
    "base e": "the base is 10000, not e",
    "no batch axis": ("the shape must be (1, position, d_model): the first axis is for the batch"),
}


def loss(tar_real, logits, label_smoothing=0.1, wrong=""):
    """The label-smoothed cross-entropy: sum, number of tokens."""
    vocab_size = logits.shape[-1]
    if wrong == "softmax twice":
        logits = softmax(logits)
    log_p = logits - logits.max(-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    one_hot = np.eye(vocab_size)[tar_real]
    epsilon = {"not smoothed": 0.0, "always 0.1": 0.1}.get(wrong, label_smoothing)
    q = (1 - epsilon) * one_hot + epsilon / vocab_size
    if wrong == "others":
        q = (1 - epsilon) * one_hot + epsilon / (vocab_size - 1) * (1 - one_hot)
    if wrong == "V - 1":
        q = (1 - epsilon) * one_hot + epsilon / (vocab_size - 1)
    if wrong == "not reduced":
        q = one_hot + epsilon / vocab_size
    values = -(q * log_p).sum(-1)  # (B, T)
    if wrong == "divergence":
        values = values + (q * np.log(np.maximum(q, 1e-30))).sum(-1)
    unit = {"sign": -1, "base 2": 1 / np.log(2), "over V": 1 / vocab_size}
    values = values * unit.get(wrong, 1)
    mask = (tar_real != 0).astype(float)
    if wrong == "mask inverted":
        mask = 1 - mask
    everything = np.ones_like(mask)
    total = (values * (everything if wrong == "padding" else mask)).sum()
    if wrong == "padding summed":
        total = values.sum()
    count = (everything if wrong in ("padding", "padding counted") else mask).sum()
    if wrong == "mean":
        total = total / count
    if wrong == "mean of all":
        total = total / mask.size
    return total, count


LOSS_WRONG = {
    "padding": "padding is counted: positions with id 0 must not count",
    "padding counted": "the number of tokens includes the padding",
    "padding summed": "the sum includes the padding",
    "mask inverted": "the mask is inverted: padding counts and the tokens do not",
    "mean": "the first result must be the sum over the tokens, not their mean",
    "mean of all": "the first result must be a sum: tf.reduce_sum, not tf.reduce_mean",
    "V - 1": "epsilon is divided by V - 1; the equation above divides it by V",
    "sign": "the sign is wrong: the loss is -sum of q(k) log p(k)",
    "not smoothed": "the label is not smoothed",
    "always 0.1": "label_smoothing is always 0.1: use the argument",
    "others": (
        "epsilon is spread over the V - 1 other words; the equation above spreads it over all V "
        "words, the label included"
    ),
    "not reduced": "the label must get 1 - epsilon + epsilon / V, not 1 + epsilon / V",
    "divergence": (
        "this is the divergence, the cross-entropy minus the entropy of q; "
        "the loss is the cross-entropy"
    ),
    "softmax twice": "log_softmax gets probabilities: its input must be the logits",
    "base 2": "the logarithm must be the natural one",
    "over V": "sum q(k) log p(k) over the vocabulary, do not average it",
}
