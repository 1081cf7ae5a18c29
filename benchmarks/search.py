"""Times a decoded token: search with a KV cache, with XLA, without a cache, and CTranslate2.

    python benchmarks/search.py                  # batches of 32 and 1: 15 minutes on two cores
    python benchmarks/search.py --rounds=1       # quicker and noisier
    python benchmarks/search.py --lengths        # our time against the length of the output

The model is `base` with random weights, and all outputs have the same length, so that all searches
do the same work; the end token cannot win. CTranslate2 is measured where it is installed
(`benchmarks/requirements.txt`), with the same weights and number of threads. The searches run in
turns, and medians are printed.
"""

import argparse
import os
import statistics
import tempfile
import time

ROWS = 32
SOURCE_LENGTH = 32
OUTPUT_LENGTH = 50
VOCABULARY = 8000
LENGTHS = (32, 64, 128, 256)
MAX_SECONDS = 60  # a search that has taken longer is measured no further


def make_model(vocab_size):
    """The model `base` with random weights and an end token that never wins.

    Returns: the model, and its `ModelConfig`.
    """
    import keras
    import numpy as np

    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.presets import preset
    from tf_transformer.special_tokens import END

    keras.utils.set_random_seed(1)
    config = preset("base").replace(input_vocab_size=vocab_size, target_vocab_size=vocab_size)
    model = build_model(config.model)
    table = model.shared_embedding.table.numpy()
    table[END] = 0.0  # its logit is 0; the largest of thousands of N(0, 1) is about 4
    model.shared_embedding.table.assign(np.float32(table))
    return model, config.model


def cached_search(model, beam_size, output_length, jit_compile=False):
    """Our search with a KV cache: a function of source ids `[B, S]`, returns ids."""
    import tensorflow as tf

    from tf_transformer.config import DecodeConfig
    from tf_transformer.decoding.inference import search_translations

    extra = output_length - SOURCE_LENGTH + 1
    decode = DecodeConfig(beam_size=beam_size, extra_decode_length=extra)

    def search(inp):
        return search_translations(model, inp, decode, for_xla=jit_compile).ids

    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(
        search, input_signature=[ids], autograph=False, jit_compile=jit_compile or None
    )


def uncached_search(model, beam_size, output_length):
    """The same search, where each step computes the whole model on all tokens so far.

    This is the reference code's way to translate.
    """
    import tensorflow as tf

    from tf_transformer.decoding.beam_search import SearchProblem, beam_search, greedy_search

    def decode_step(ids, position, beam_indices, state):
        inp, prefixes = state  # (B, K, S), (B, K, t)
        prefixes = tf.gather(prefixes, beam_indices, batch_dims=1)
        prefixes = tf.concat([prefixes, ids[:, :, tf.newaxis]], axis=2)  # (B, K, t + 1)
        rows = tf.shape(ids)[0] * beam_size
        flat_inp = tf.reshape(inp, [rows, -1])  # (B*K, S)
        flat_prefixes = tf.reshape(prefixes, [rows, -1])  # (B*K, t + 1)
        logits, _ = model(flat_inp, flat_prefixes, training=False)  # (B*K, t + 1, V)
        return tf.reshape(logits[:, -1], [-1, beam_size, VOCABULARY]), (inp, prefixes)

    def search(inp):
        sentences = tf.shape(inp)[0]
        max_lengths = tf.fill([sentences], output_length)
        repeated_inp = tf.repeat(inp[:, tf.newaxis], beam_size, axis=1)  # (B, K, S)
        state = (repeated_inp, tf.zeros([sentences, beam_size, 0], tf.int64))
        problem = SearchProblem(decode_step, state, max_lengths)
        return greedy_search(problem).ids if beam_size == 1 else beam_search(problem, beam_size).ids

    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(search, input_signature=[ids], autograph=False)


def ctranslate2_search(model, model_config, beam_size, output_length):
    """CTranslate2 with the same weights and number of threads."""
    import ctranslate2

    from tf_transformer.export.ctranslate2_folder import make_spec

    tokens = ["[PAD]", "[UNK]", "[START]", "[END]"]
    tokens += [f"w{i}" for i in range(4, model_config.input_vocab_size)]
    with tempfile.TemporaryDirectory() as folder:
        make_spec(model, model_config, [tokens, tokens]).save(folder)
        translator = ctranslate2.Translator(
            folder, inter_threads=1, intra_threads=os.cpu_count(), compute_type="float32"
        )

    def search(inp):
        # CTranslate2 appends the end token itself.
        sources = [[tokens[i] for i in row[:-1]] for row in inp.numpy()]
        results = translator.translate_batch(
            sources,
            beam_size=beam_size,
            max_decoding_length=output_length,
            min_decoding_length=output_length - 1,
        )
        return [result.hypotheses for result in results]

    return search


def measure(searches, inp, rounds):
    """Times searches in turns; the first turn warms up.

    Args:
      searches: name -> function of source ids.
      inp: source ids `[B, S]`.
      rounds: turns; a slow search is measured only twice.
    Returns: name -> median seconds.
    """
    times = {name: [] for name in searches}
    for turn in range(rounds + 1):
        for name, search in searches.items():
            if turn > 1 and sum(times[name]) > MAX_SECONDS:
                continue
            start = time.perf_counter()
            search(inp)
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def random_sources(rows):
    """Random source ids `[rows, SOURCE_LENGTH]` with the end token."""
    import numpy as np
    import tensorflow as tf

    from tf_transformer.special_tokens import END

    ids = np.random.default_rng(0).integers(4, VOCABULARY, (rows, SOURCE_LENGTH))
    ids[:, -1] = END
    return tf.constant(ids, tf.int32)


def compare_searches(rounds, output_length):
    """Prints the table of searches."""
    model, model_config = make_model(VOCABULARY)
    print(
        f"base, {VOCABULARY:,} sub-words, float32, {os.cpu_count()} cores; "
        f"sources of {SOURCE_LENGTH}, outputs of {output_length} tokens"
    )
    print(f"{'search':<10} {'batch':>5} {'':<14} {'seconds':>8} {'tokens/s':>8} {'of ours':>8}")
    for beam_size in (1, 4):
        kind = "greedy" if beam_size == 1 else f"beam {beam_size}"
        searches = {
            "KV cache": cached_search(model, beam_size, output_length),
            "XLA": cached_search(model, beam_size, output_length, jit_compile=True),
            "no cache": uncached_search(model, beam_size, output_length),
        }
        try:
            searches["CTranslate2"] = ctranslate2_search(
                model, model_config, beam_size, output_length
            )
        except ImportError:
            print("(ctranslate2 is not installed)")
        for rows in (ROWS, 1):
            times = measure(searches, random_sources(rows), rounds)
            for name, seconds in times.items():
                speed = rows * output_length / seconds
                print(
                    f"{kind:<10} {rows:>5} {name:<14} {seconds:>8.3f} {speed:>8,.0f} "
                    f"{seconds / times['KV cache']:>8.2f}",
                    flush=True,
                )


def compare_lengths(rounds, lengths):
    """Prints our time against the length of the output."""
    model, _ = make_model(VOCABULARY)
    for beam_size in (1, 4):
        searches = {length: cached_search(model, beam_size, length) for length in lengths}
        times = measure(searches, random_sources(ROWS), rounds)
        first = times[lengths[0]] / lengths[0]
        print(f"\nbeam {beam_size}, batch {ROWS}")
        print(f"{'tokens':>6} {'seconds':>8} {'ms a token':>10} {'of the first':>13}")
        for length, seconds in times.items():
            each = seconds / length
            print(
                f"{length:>6} {seconds:>8.2f} {each * 1e3:>10.2f} {each / first:>13.2f}", flush=True
            )


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns; medians are printed")
    parser.add_argument(
        "--output_length", type=int, default=OUTPUT_LENGTH, help="tokens, at least 32"
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="*",
        help=f"time against these output lengths instead; default {' '.join(map(str, LENGTHS))}",
    )
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from allocator import use_allocator

    use_allocator()
    if args.lengths is None:
        compare_searches(args.rounds, args.output_length)
    else:
        compare_lengths(args.rounds, args.lengths or LENGTHS)


if __name__ == "__main__":
    main()
