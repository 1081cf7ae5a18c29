"""For notebook A1: the speed of CTranslate2, in a process without TensorFlow.

    python ctranslate2_engine.py FOLDER THREADS < TEXTS.json

It prints JSON: the milliseconds of single sentences in three rounds, the translations, and the
sentences a second of all together.
"""

import glob
import json
import sys
import time


def main(folder, threads):
    """Translates the texts of the standard input."""
    import ctranslate2
    import sentencepiece

    texts = json.load(sys.stdin)
    engine = ctranslate2.Translator(folder, intra_threads=threads)
    # shared.model, or source.model and target.model
    vocabularies = sorted(glob.glob(f"{folder}/*.model"))
    source = sentencepiece.SentencePieceProcessor(vocabularies[0])
    target = sentencepiece.SentencePieceProcessor(vocabularies[-1])

    def translate(texts):
        pieces = source.encode(texts, out_type=str)
        settings = {"beam_size": 4, "length_penalty": 0.6, "max_decoding_length": 100}
        results = engine.translate_batch(pieces, **settings)
        return [target.decode(result.hypotheses[0]) for result in results]

    def milliseconds(texts):
        start = time.perf_counter()
        translate(texts)
        return (time.perf_counter() - start) * 1e3

    translations = translate(texts)  # warm-up
    rounds = [[milliseconds([text]) for text in texts[:8]] for _ in range(3)]
    print(json.dumps([rounds, translations, len(texts) / milliseconds(texts) * 1e3]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
