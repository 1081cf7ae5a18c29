"""Compares the translations of exported models with those of the live model.

    python benchmarks/exported.py --model_dir=MODEL_DIR   # two minutes on two cores

500 test sentences are translated. The SavedModel gets 32, 7 and 1 of them in a request, and its
scores are compared too. CTranslate2 (float32 and int8) translates with greedy search and with beam
4, with and without length penalty; its length penalty has another definition. The last rows are
those of `--engine=ctranslate2`, which has our definition.
"""

import argparse
import os
import tempfile

from evaluation_text import read_test_sources

SENTENCES = 500
SEARCHES = {  # name -> beam size, length penalty
    "greedy": (1, 0.0),
    "beam 4, no penalty": (4, 0.0),
    "beam 4, penalty 0.6": (4, 0.6),
}


def compare_saved_model(model_dir, folder, texts):
    """Prints one table row for each number of sentences in a request."""
    import numpy as np
    import tensorflow as tf

    from tf_transformer.decoding.translator import Translator
    from tf_transformer.export.saved_model import export_saved_model

    live = [best[0] for best in Translator.load(model_dir).n_best(texts, 1)]
    live_scores = [score for _, score in live]
    path = export_saved_model(model_dir, os.path.join(folder, "saved_model"))
    loaded = tf.saved_model.load(path)
    translate = loaded.signatures["serving_default"]
    for batch_size in (32, 7, 1):
        batches = [texts[i : i + batch_size] for i in range(0, len(texts), batch_size)]
        outputs = [translate(text=tf.constant(batch)) for batch in batches]
        translations = np.concatenate([output["translation"] for output in outputs])
        scores = np.concatenate([output["score"] for output in outputs])
        equal = sum(text.decode() == expected for text, (expected, _) in zip(translations, live))
        difference = np.abs(scores - live_scores).max()
        print(
            f"| SavedModel, beam 4, {batch_size} at a time | {equal} | {difference:.1e} |",
            flush=True,
        )


def compare_ctranslate2(model_dir, folder, texts):
    """Prints one table row for each number type and search."""
    import ctranslate2
    import sentencepiece

    from tf_transformer.data.tokenizer import load_tokenizers
    from tf_transformer.decoding.translator import Translator
    from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

    live = {}
    for name, (beam_size, penalty) in SEARCHES.items():
        translator = Translator.load(model_dir, beam_size=beam_size, length_penalty=penalty)
        live[name] = [best[0] for best in translator.n_best(texts, 1)]
    for quantization in ("float32", "int8"):
        output = os.path.join(folder, quantization)
        write_ctranslate2_folder(model_dir, output, quantization=quantization)
        source, target = (
            sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
            for tokenizer in load_tokenizers(output)
        )
        pieces = source.encode(texts, out_type=str)
        engine = ctranslate2.Translator(output)
        for name, (beam_size, penalty) in SEARCHES.items():
            results = engine.translate_batch(pieces, beam_size=beam_size, length_penalty=penalty)
            translations = [target.decode(result.hypotheses[0]) for result in results]
            equal = sum(text == best for text, (best, _) in zip(translations, live[name]))
            print(f"| CTranslate2 {quantization}, {name} | {equal} | |", flush=True)
    compare_engine(folder, texts, live)


def compare_engine(folder, texts, live):
    """Prints one table row for each number type and search of `--engine=ctranslate2`.

    Args:
      folder: has the exports `float32` and `int8`.
      texts: a list of sentences.
      live: name of a search -> a list with the best (translation, score) of each sentence.
    """
    from tf_transformer.export.ctranslate2_translator import CTranslate2Translator

    for quantization in ("float32", "int8"):
        for name, (beam_size, penalty) in SEARCHES.items():
            translator = CTranslate2Translator(
                os.path.join(folder, quantization), beam_size=beam_size, length_penalty=penalty
            )
            found = [best[0] for best in translator.n_best(texts, 1)]
            pairs = list(zip(found, live[name]))
            equal = [(score, other) for (text, score), (best, other) in pairs if text == best]
            difference = max(abs(score - other) for score, other in equal)
            print(
                f"| --engine=ctranslate2, {quantization}, {name} | {len(equal)} | "
                f"{difference:.1e} |",
                flush=True,
            )


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model_dir", required=True)
    parser.add_argument(
        "--sentences", type=int, default=SENTENCES, help="number of sentences to translate"
    )
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    texts = read_test_sources(args.model_dir, args.sentences)
    print(
        f"| of {len(texts)} sentences | equal translations | largest difference of scores |\n"
        "|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        compare_saved_model(args.model_dir, folder, texts)
        compare_ctranslate2(args.model_dir, folder, texts)


if __name__ == "__main__":
    main()
