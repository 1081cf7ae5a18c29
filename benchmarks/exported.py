"""Whether exported models translate as the live one does: how many of 500 held-out sentences come out the same.

    python benchmarks/exported.py --model_dir=MODEL_DIR   # two minutes on two cores

The SavedModel is asked for 32, 7 and 1 sentences at a time, the last being each sentence without company, and its scores are compared
too; CTranslate2 (float32 and int8) greedily and with beam 4, with and without the length penalty, which it defines differently.
"""

import argparse
import itertools
import os
import tempfile

SENTENCES = 500


def saved_model(model_dir, folder, texts):
    """Prints a row for each batch size."""
    import numpy as np
    import tensorflow as tf

    from tf_transformer.decoding.translator import Translator
    from tf_transformer.serving.saved_model import export_saved_model

    live = [best[0] for best in Translator.load(model_dir).n_best(texts, 1)]
    translate = tf.saved_model.load(
        export_saved_model(model_dir, os.path.join(folder, "saved_model"))
    ).signatures["serving_default"]
    for rows in (32, 7, 1):
        found = [
            translate(text=tf.constant(texts[i : i + rows])) for i in range(0, len(texts), rows)
        ]
        same = sum(
            text.decode() == theirs
            for text, (theirs, _) in zip(np.concatenate([f["translation"] for f in found]), live)
        )
        off = np.abs(
            np.concatenate([f["score"] for f in found]) - [score for _, score in live]
        ).max()
        print(f"| SavedModel, beam 4, {rows} at a time | {same} | {off:.1e} |", flush=True)


def ctranslate2_folder(model_dir, folder, texts):
    """Prints a row for each kind of number and search."""
    import ctranslate2
    import sentencepiece

    from tf_transformer.decoding.translator import Translator
    from tf_transformer.serving.ctranslate2_export import write_ctranslate2_folder

    searches = {"greedy": (1, 0.0), "beam 4, no penalty": (4, 0.0), "beam 4, penalty 0.6": (4, 0.6)}
    live = {
        name: Translator.load(model_dir, beam_size=beam, alpha=alpha)(texts)
        for name, (beam, alpha) in searches.items()
    }
    for numbers in ("float32", "int8"):
        output = os.path.join(folder, numbers)
        write_ctranslate2_folder(model_dir, output, quantization=numbers)
        words = sentencepiece.SentencePieceProcessor(os.path.join(output, "shared.model"))
        engine, pieces = ctranslate2.Translator(output), words.encode(texts, out_type=str)
        for name, (beam, alpha) in searches.items():
            results = engine.translate_batch(pieces, beam_size=beam, length_penalty=alpha)
            same = sum(
                words.decode(result.hypotheses[0]) == text
                for result, text in zip(results, live[name])
            )
            print(f"| CTranslate2 {numbers}, {name} | {same} | |", flush=True)


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model_dir", required=True)
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tf_transformer.checkpoints import paths as model_folder
    from tf_transformer.data.sources import open_corpus

    data = model_folder.load_config(args.model_dir).data
    corpus = open_corpus(data.data, data.source, data.target)
    texts = [
        source
        for source, _ in itertools.islice(corpus.read(corpus.default_test(seen=True)), SENTENCES)
    ]
    print(
        f"| of {len(texts)} sentences | the same translation | largest difference of scores |\n|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        saved_model(args.model_dir, folder, texts)
        ctranslate2_folder(args.model_dir, folder, texts)


if __name__ == "__main__":
    main()
