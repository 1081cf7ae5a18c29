"""Translation with CTranslate2: text in, text out, without TensorFlow.

CTranslate2 computes the beam. This module does what the signatures of a SavedModel do around it:
- It ranks the finished hypotheses by log-probability / ((5 + L) / 6) ^ length_penalty. CTranslate2
  stops when a number of hypotheses have finished, and not when no better one can come. With
  `PATIENCE` times the beam size, the best hypothesis is nearly always the same.
- The longest output of a text depends on this text, not on the others of its batch.
- Padding and the start token are never produced. Their probability is divided among the others.
"""

import concurrent.futures
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import Any

from tf_transformer.config import DecodeConfig
from tf_transformer.data.tags import split_tag, vocabulary_tags
from tf_transformer.data.text_files import LINE_SEPARATORS, check_list
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.decoding.text_batches import (
    Translation,
    check_n_best,
    find_long,
    length_batches,
)
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.versions import read_description
from tf_transformer.host import number_of_cores
from tf_transformer.special_tokens import END, PAD, START

Pieces = list[str]  # the sub-words of a text, without the end token
Hypotheses = list[Translation]  # of a text, best first
Progress = Callable[[int], object]  # is called with the number of texts of each finished batch

PATIENCE = 2.0  # finished hypotheses that end the search / beam size
N_BEST_PATIENCE = 3.0  # the same where several hypotheses are wanted


class CTranslate2Translator:
    """Translates text with a model that was exported for CTranslate2.

    Args:
      folder: of the export.
      compute_type: of the weights in memory, "float32" or "int8"; "default": as exported.
      parallel: batches that are computed at the same time.
      min_length: fewest sub-words of a translation, as in `GenerationConfig`.
      **decode: fields of `DecodeConfig` to change.
    Raises: UserError when a package is missing, or the folder is not a complete export.

    Attributes:
      decode: a `DecodeConfig`.
      end: the end token, a string.
      max_source, max_target: positions of the model; the end token takes one.
    """

    def __init__(
        self,
        folder: str,
        compute_type: str = "default",
        parallel: int = 1,
        min_length: int = 0,
        **decode: Any,
    ) -> None:
        description = read_description(folder)
        names = ("beam_size", "length_penalty", "extra_decode_length")
        try:
            self.max_source = description["max_source_subwords"]
            self.max_target = description["max_target_subwords"]
            self.decode = DecodeConfig(**{name: description[name] for name in names} | decode)
        except KeyError:
            raise UserError(
                f"{folder} is not an export for CTranslate2, or one of an older version: write it "
                "with `tf-transformer export --format=ctranslate2`"
            ) from None
        self._source, self._target = _load_tokenizers(folder)
        self.tags = vocabulary_tags(self._source)
        self._excluded = [[self._target.id_to_piece(token)] for token in (PAD, START)]
        # CTranslate2 divides by L ^ penalty; with 0 it would have another rule for the end.
        self._engine_penalty = max(self.decode.length_penalty, 1e-3)
        self.end = self._target.id_to_piece(END)
        self._parallel = parallel
        self._min_length = min_length
        self._engine = _load_engine(folder, compute_type, parallel)

    def encode(self, texts: Iterable[str | bytes]) -> list[Pieces]:
        """Splits source texts into tags and sub-words. Invalid UTF-8 is read as U+FFFD."""
        check_list(texts, '["Anna sleeps."]')
        rows = []
        for text in texts:
            tag, sentence = split_tag(_text(text), self.tags)
            pieces = self._source.encode(sentence, out_type=str)
            rows.append([tag, *pieces] if tag else pieces)
        return rows

    def encode_targets(self, texts: Iterable[str | bytes]) -> list[Pieces]:
        """Splits target texts into sub-words, as `encode`."""
        check_list(texts, '["Anna schläft."]')
        return [self._target.encode(_text(text), out_type=str) for text in texts]

    def decode_target(self, pieces: Pieces) -> str:
        """Joins target sub-words to one line: a blank replaces each line separator."""
        return re.sub(LINE_SEPARATORS, " ", self._target.decode(pieces))

    def n_best(
        self,
        texts: Sequence[str],
        number: int,
        progress: Progress | None = None,
        line_numbers: Sequence[int] | None = None,
        skip_long: bool = False,
    ) -> list[Hypotheses]:
        """Translates texts; arguments and result are as of `Translator.n_best`."""
        check_n_best(number, self.decode.beam_size)
        rows = self.encode(texts)
        with_end = [[*row, self.end] for row in rows]
        find_long(with_end, self.max_source, line_numbers or range(1, len(rows) + 1), skip_long)
        return self.search(rows, number, progress)

    def search(
        self, rows: Sequence[Pieces], number: int, progress: Progress | None = None
    ) -> list[Hypotheses]:
        """Searches the translations of texts, in batches of texts of similar length.

        Args:
          rows: source sub-words of each text.
          number: of translations of each text, at most the beam size.
          progress: what it raises ends the search.
        Returns: up to `number` translations of each text, each one line: a blank replaces each line
          separator. ("", 0.0) for a blank text; ("", -inf) for one with more sub-words than the
          model has positions, and where no hypothesis was found.
        """
        results = [[Translation(("", -math.inf if row else 0.0))] for row in rows]
        lengths = {i: len(row) + 1 for i, row in enumerate(rows) if 0 < len(row) < self.max_source}
        batch_tokens = self.decode.decode_batch_tokens // self.decode.beam_size
        batches = list(length_batches(lengths, batch_tokens))

        def search_batch(batch: list[int]) -> list[Hypotheses]:
            return self._search_batch([rows[i] for i in batch], number)

        threads = concurrent.futures.ThreadPoolExecutor(self._parallel)
        try:
            for batch, found in zip(batches, threads.map(search_batch, batches)):
                for i, hypotheses in zip(batch, found):
                    results[i] = hypotheses
                if progress:
                    progress(len(batch))
        finally:  # after Ctrl-C no other batch starts
            threads.shutdown(cancel_futures=True)
        return results

    def _search_batch(self, rows: list[Pieces], number: int) -> list[Hypotheses]:
        """The translations of a batch, each within the longest output of its own row."""
        extra, most = self.decode.extra_decode_length, self.max_target
        limits = [max(2, min(len(row) + extra, most)) for row in rows]  # with the end token
        results = self._run_engine(rows, max(limits), number)
        # The batch has the limit of its longest row. The search of a row that came close to its own
        # limit is repeated with this one.
        longest = [max(map(len, found.hypotheses)) for found in results]
        near = [i for i, length in enumerate(longest) if length >= limits[i] - 1]
        for limit in {limits[i] for i in near} - {max(limits)}:
            repeated = [i for i in near if limits[i] == limit]
            for i, found in zip(
                repeated, self._run_engine([rows[i] for i in repeated], limit, number)
            ):
                results[i] = found
        return [self._rank(*each)[:number] for each in zip(rows, results, limits)]

    def _run_engine(self, rows: list[Pieces], max_length: int, number: int) -> list[Any]:
        """Runs CTranslate2's search.

        Returns: a `ctranslate2.TranslationResult` for each row. At the longest output, all
          hypotheses end, some of them without the end token.
        """
        beam_size = self.decode.beam_size
        patience = 1.0 if beam_size == 1 else PATIENCE if number == 1 else N_BEST_PATIENCE
        return self._engine.translate_batch(
            rows,
            beam_size=beam_size,
            patience=patience,
            # All of them, so that one of the last step is there.
            num_hypotheses=round(beam_size * patience),
            length_penalty=self._engine_penalty,
            return_scores=True,
            return_end_token=True,
            suppress_sequences=self._excluded,
            max_input_length=0,  # no limit
            min_decoding_length=min(self._min_length, max_length - 1),
            max_decoding_length=max_length - 1,
        )

    def _rank(self, row: Pieces, found: Any, limit: int) -> Hypotheses:
        """Returns the hypotheses of a row with our scores, best first.

        CTranslate2 divides the probability of an end token that comes too early among the others:
        with a minimum length, the scores are computed again.
        """
        scored = []
        for pieces, score in zip(found.hypotheses, found.scores):
            log_prob = score * len(pieces) ** self._engine_penalty
            if ended := pieces[-1] == self.end:
                pieces = pieces[:-1]
            if self._min_length or not ended:  # at the longest output only the end token can follow
                log_prob = sum(self.log_probs([row], [pieces])[0])
            penalty = length_penalty(len(pieces) + 1, self.decode.length_penalty)
            scored.append((log_prob / penalty, pieces))
        scored = [(score, pieces) for score, pieces in scored if is_possible(score)]
        scored.sort(key=lambda hypothesis: -hypothesis[0])
        return [
            Translation((self.decode_target(pieces), score), len(pieces), len(pieces) + 1 >= limit)
            for score, pieces in scored
        ] or [Translation(("", -math.inf))]

    def log_probs(self, sources: list[Pieces], targets: list[Pieces]) -> list[list[float]]:
        """log p of each sub-word of given translations, and of the end token after them.

        Args:
          sources, targets: sub-words of each pair, none longer than the positions of the model.
        """
        results = self._engine.score_batch(sources, targets, max_input_length=0)
        return [result.log_probs for result in results]


def _text(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def _load_engine(folder: str, compute_type: str, parallel: int) -> Any:
    """Loads a `ctranslate2.Translator`. The cores are divided among parallel batches."""
    with explain_missing_package("ctranslate2", "ctranslate2"):
        import ctranslate2
    try:
        return ctranslate2.Translator(
            folder,
            compute_type=compute_type,
            inter_threads=parallel,
            intra_threads=max(1, number_of_cores() // parallel),
        )
    except (RuntimeError, ValueError) as error:
        raise UserError(f"CTranslate2 cannot load {folder}: {error}") from error


def installed_version() -> str:
    """Returns the version of the package ctranslate2. Raises: UserError when it is missing."""
    with explain_missing_package("ctranslate2", "ctranslate2"):
        return metadata.version("ctranslate2")


def _load_tokenizers(folder: str) -> tuple[Any, Any]:
    """Loads the SentencePiece models of the source and of the target."""
    import sentencepiece

    is_shared = os.path.exists(os.path.join(folder, "shared.model"))
    tokenizers = []
    for name in ["shared.model"] if is_shared else ["source.model", "target.model"]:
        try:
            path = os.path.join(folder, name)
            tokenizers.append(sentencepiece.SentencePieceProcessor(path))
        except (OSError, RuntimeError) as error:
            raise UserError(f"{folder}/{name} is missing or damaged: export again") from error
    return tokenizers[0], tokenizers[-1]
