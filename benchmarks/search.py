"""What a translated word costs: our cached search, recomputing the prefix at each step, and CTranslate2 with the same weights.

    python benchmarks/search.py                  # base sizes, batches of 32 and 1: a quarter of an hour on two cores
    python benchmarks/search.py --rounds=1       # quicker and noisier
    python benchmarks/search.py --lengths        # our time against the length of the output

The weights are random and the outputs of one fixed length, so that all do the same work; the end symbol cannot win. CTranslate2 is
measured where it is installed (`benchmarks/requirements.txt`), with as many threads. Contenders take turns, and medians are printed.
"""

import argparse
import os
import statistics
import tempfile
import time

ROWS, SOURCE, WORDS, VOCABULARY = 32, 32, 50, 8000
LENGTHS = (32, 64, 128, 256)


def make_model(vocab_size):
    """The model `base` with random weights, whose end symbol never wins, and its `ModelConfig`."""
    import keras
    import numpy as np

    from tf_transformer import config
    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.presets import preset

    keras.utils.set_random_seed(1)
    sizes = preset("base").replace(input_vocab_size=vocab_size, target_vocab_size=vocab_size).model
    model = build_model(sizes)
    table = model.shared_embedding.table.numpy()
    table[config.END] = 0.0  # a logit of 0, when the largest of thousands of N(0, 1) is about 4
    model.shared_embedding.table.assign(np.float32(table))
    return model, sizes


def ours(model, beam_size, words):
    """Our search: a function of source ids `[B, S]` that returns `SearchResult.ids`."""
    import tensorflow as tf

    from tf_transformer import config
    from tf_transformer.decoding.translator import search_translations

    def search(inp):
        decode = config.DecodeConfig(beam_size=beam_size, extra_decode_length=words - SOURCE + 1)
        return search_translations(model, inp, decode).ids

    return tf.function(
        search, input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False
    )


def prefix(model, beam_size, words):
    """The tutorial's way: the same search, but each step runs the whole model on all words so far."""
    import tensorflow as tf

    from tf_transformer.decoding.search import beam_search, greedy_search

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def search(inp):
        def step(ids, position, parents, state):
            inp, so_far = state  # (B, K, S), (B, K, t)
            so_far = tf.concat(
                [tf.gather(so_far, parents, batch_dims=1), ids[:, :, tf.newaxis]], axis=2
            )
            rows = tf.shape(ids)[0] * beam_size
            logits, _ = model(
                tf.reshape(inp, [rows, -1]), tf.reshape(so_far, [rows, -1]), training=False
            )  # (B * K, t, V)
            return tf.reshape(logits[:, -1], [-1, beam_size, VOCABULARY]), (inp, so_far)

        sentences, limits = tf.shape(inp)[0], tf.fill([tf.shape(inp)[0]], words)
        state = (
            tf.repeat(inp[:, tf.newaxis], beam_size, axis=1),
            tf.zeros([sentences, beam_size, 0], tf.int32),
        )
        if beam_size == 1:
            return greedy_search(step, state, limits).ids
        return beam_search(step, state, limits, beam_size).ids

    return search


def ctranslate2_of(model, sizes, beam_size, words):
    """CTranslate2 on the same weights and threads."""
    import ctranslate2

    from tf_transformer.serving.ctranslate2_export import make_spec

    names = ["[PAD]", "[UNK]", "[START]", "[END]"] + [
        f"w{i}" for i in range(4, sizes.input_vocab_size)
    ]
    with tempfile.TemporaryDirectory() as folder:
        make_spec(model, sizes, [names, names]).save(folder)
        translator = ctranslate2.Translator(
            folder, inter_threads=1, intra_threads=os.cpu_count(), compute_type="float32"
        )

    def search(inp):
        rows = [[names[i] for i in row[:-1]] for row in inp.numpy()]  # it adds the end symbol
        found = translator.translate_batch(
            rows, beam_size=beam_size, max_decoding_length=words, min_decoding_length=words - 1
        )
        return [result.hypotheses for result in found]

    return search


def seconds(contenders, inp, rounds):
    """Median seconds of each contender, in turns; the first turn warms up."""
    times = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, search in contenders.items():
            if turn > 1 and sum(times[name]) > 60:
                continue  # two measurements of what takes minutes will do
            start = time.perf_counter()
            search(inp)
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def compare(rounds):
    """Prints the table of contenders."""
    model, sizes = make_model(VOCABULARY)
    print(
        f"base, {VOCABULARY:,} words, float32, {os.cpu_count()} cores; sources of {SOURCE}, outputs of {WORDS} sub-words"
    )
    print(f"{'search':<10} {'batch':>5} {'':<14} {'seconds':>8} {'words/s':>8} {'of ours':>8}")
    for beam_size in (1, 4):
        contenders = {
            "ours": ours(model, beam_size, WORDS),
            "prefix": prefix(model, beam_size, WORDS),
        }
        try:
            contenders["CTranslate2"] = ctranslate2_of(model, sizes, beam_size, WORDS)
        except ImportError:
            print("(ctranslate2 is not installed)")
        for rows in (ROWS, 1):
            found = seconds(contenders, sources(rows), rounds)
            for name, time_taken in found.items():
                kind = "greedy" if beam_size == 1 else f"beam {beam_size}"
                speed = rows * WORDS / time_taken
                print(
                    f"{kind:<10} {rows:>5} {name:<14} {time_taken:>8.3f} {speed:>8,.0f} {time_taken / found['ours']:>8.2f}",
                    flush=True,
                )


def sources(rows):
    """Random source sentences `[rows, SOURCE]`."""
    import numpy as np
    import tensorflow as tf

    from tf_transformer.special_tokens import END

    ids = np.random.default_rng(0).integers(4, VOCABULARY, (rows, SOURCE))
    ids[:, -1] = END
    return tf.constant(ids, tf.int32)


def against_length(rounds):
    """Prints our time against the length of the output."""
    model, _ = make_model(VOCABULARY)
    for beam_size in (1, 4):
        contenders = {words: ours(model, beam_size, words) for words in LENGTHS}
        found = seconds(contenders, sources(ROWS), rounds)
        print(
            f"\nbeam {beam_size}, batch {ROWS}\n{'words':>6} {'seconds':>8} {'ms a word':>10} {'of the first':>13}"
        )
        for words, time_taken in found.items():
            each = time_taken / words
            print(
                f"{words:>6} {time_taken:>8.2f} {each * 1e3:>10.2f} {each / (found[LENGTHS[0]] / LENGTHS[0]):>13.2f}",
                flush=True,
            )


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns, of which the median is taken")
    parser.add_argument(
        "--lengths", action="store_true", help="time against the length of the output instead"
    )
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tf_transformer.cli.allocator import use_allocator

    use_allocator()
    (against_length if args.lengths else compare)(args.rounds)


if __name__ == "__main__":
    main()
