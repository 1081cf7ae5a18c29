"""Floating-point operations of training (Table 2), by two roads: the paper's estimate, and a count of the matrix products."""

# Sec. 5.2 and 6.1: seconds of training; the last footnote of Sec. 6.1: floating-point operations a second that a P100 sustains.
PAPER_HOURS = {"base": 12.0, "big": 3.5 * 24}
PAPER_GPUS = 8
P100_RATE = 9.5e12
WMT_LENGTH = 30  # sub-words of a mean WMT sentence with the end symbol, about; 25 or 35 change the count by less than half a per cent


def paper_operations(hours, gpus=PAPER_GPUS, rate=P100_RATE):
    """The paper's estimate: time x devices x operations a second that a device sustains.

    An upper bound rather than a count: no program keeps a device at its sustained capacity all the time.

    Args:
      hours: of training.
      gpus: devices.
      rate: floating-point operations a second of one.
    Returns: 3.3e18 for base and 2.3e19 for big, as in Table 2.
    """
    return hours * 3600 * gpus * rate


def matrix_operations(model, rows, source_length, target_length):
    """The multiplications and additions of the matrix products in an update: forward once, and backward twice as many.

    What else there is (softmax, layer norm, dropout, Adam) is below two per cent of them for base.

    Args:
      model: a `ModelConfig`.
      rows: sentence pairs.
      source_length, target_length: sub-words of each, padding included.
    """
    s, t, d = source_length, target_length, model.d_model
    keys = model.num_heads * model.depth
    values = model.num_heads * model.value_depth
    queries_output, keys_values = (
        d * keys + values * d,
        d * keys + d * values,
    )  # W^Q and W^O, W^K and W^V, of one token
    feed_forward, look = (
        2 * d * model.dff,
        keys + values,
    )  # of one token; of one token at one other: q k^T and the weighted sum of v
    encoder = s * (queries_output + keys_values + feed_forward) + s * s * look
    decoder = (
        t * (2 * queries_output + keys_values + feed_forward)
        + s * keys_values
        + (t * t + t * s) * look
    )
    return 3 * 2 * rows * (model.num_layers * (encoder + decoder) + t * model.target_vocab_size * d)


def training_operations(config, length=WMT_LENGTH):
    """The operations of a whole run: updates x those of an update with all its tokens, padding included.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      length: of every sentence, sub-words.
    """
    return config.train.train_steps * matrix_operations(
        config.model, config.data.batch_tokens / length, length, length
    )
