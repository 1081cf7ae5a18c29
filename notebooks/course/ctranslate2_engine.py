"""For notebook H: CTranslate2 in a process without TensorFlow, whose threads would disturb it.

    python ctranslate2_engine.py FOLDER THREADS

For each line of the input, a list of texts as JSON, it prints [milliseconds, translations]. It
ends with its input.
"""

import glob
import json
import subprocess
import sys
import time


def start(folder, threads):
    """Starts such a process.

    Args:
      folder: the model, exported for CTranslate2.
      threads: that share each operation.
    Returns: a function from a list of texts to [milliseconds, translations].
    """
    process = subprocess.Popen(
        [sys.executable, __file__, folder, str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # not stopped by an interrupt of the notebook
    )

    def translate(texts):
        print(json.dumps(texts), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    return translate


def main(folder, threads):
    """Translates the texts of each line of the standard input."""
    import ctranslate2
    import sentencepiece

    engine = ctranslate2.Translator(folder, intra_threads=threads)
    # shared.model, or source.model and target.model
    vocabularies = sorted(glob.glob(f"{folder}/*.model"))
    source = sentencepiece.SentencePieceProcessor(vocabularies[0])
    target = sentencepiece.SentencePieceProcessor(vocabularies[-1])
    settings = {"beam_size": 4, "length_penalty": 0.6, "max_decoding_length": 100}
    for line in sys.stdin:
        start_time = time.perf_counter()
        pieces = source.encode(json.loads(line), out_type=str)
        results = engine.translate_batch(pieces, **settings)
        translations = [target.decode(result.hypotheses[0]) for result in results]
        milliseconds = (time.perf_counter() - start_time) * 1e3
        print(json.dumps([milliseconds, translations]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
