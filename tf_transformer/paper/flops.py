"""Floating-point operations of training (Table 2): the paper's estimate, and an exact count.

The paper multiplies training time by the speed of the devices (Sec. 6.1). The count adds up the
matrix products of every update.
"""

from tf_transformer.config import Config, ModelConfig

# Training time (Sec. 5.2) and number of GPUs. The speed is the sustained single-precision speed of
# a P100 in floating-point operations per second (last footnote of Sec. 6.1).
PAPER_HOURS = {"base": 12.0, "big": 3.5 * 24}
PAPER_GPUS = 8
P100_RATE = 9.5e12

# Sub-words of an average WMT sentence, with the end token. It is approximate: with 25 or 35, the
# count changes by less than half a per cent.
WMT_LENGTH = 30


def paper_operations(hours: float, gpus: int = PAPER_GPUS, rate: float = P100_RATE) -> float:
    """Returns the paper's estimate: time x number of devices x speed of a device.

    It is an upper bound: no program keeps a device at its sustained speed all the time.

    Args:
      hours: training time.
      gpus: number of devices.
      rate: floating-point operations per second of one device.
    Returns: operations; 3.3e18 for base and 2.3e19 for big, as in Table 2.
    """
    return hours * 3600 * gpus * rate


def matrix_operations(
    model: ModelConfig, rows: float, source_length: float, target_length: float
) -> float:
    """Counts the multiplications and additions of the matrix products in one update.

    The backward pass takes twice as many as the forward pass. The other operations (softmax, layer
    norm, dropout, Adam) are not counted; for base they are below two per cent of the count.

    Args:
      model: a `ModelConfig`.
      rows: sentence pairs.
      source_length, target_length: sub-words of each sentence, padding included.
    Returns: the number of operations.
    """
    d = model.d_model
    keys = model.num_heads * model.depth
    values = model.num_heads * model.value_depth
    source = source_length
    target = target_length

    # Weights that each token is multiplied by.
    queries_and_output = d * keys + values * d  # W^Q and W^O
    keys_and_values = d * keys + d * values  # W^K and W^V
    feed_forward = 2 * d * model.dff
    # For each pair of a query and a key: q k^T and the weighted sum of v.
    attention = keys + values

    encoder_layer = source * (queries_and_output + keys_and_values + feed_forward)
    encoder_layer += source * source * attention
    decoder_layer = target * (2 * queries_and_output + keys_and_values + feed_forward)
    decoder_layer += source * keys_and_values  # of the encoder output
    decoder_layer += (target * target + target * source) * attention
    logits = target * model.target_vocab_size * d
    products = model.encoder_layers * encoder_layer + model.decoder_layers * decoder_layer + logits
    return 3 * 2 * rows * products


def training_operations(config: Config, length: float = WMT_LENGTH) -> float:
    """Counts the operations of a whole run: the number of updates x the operations of one update.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      length: sub-words of every sentence, padding included.
    Returns: the number of operations.
    """
    rows = config.data.batch_tokens / length
    return config.train.train_steps * matrix_operations(config.model, rows, length, length)
