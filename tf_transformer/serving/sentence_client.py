"""A client that translates each sentence of a text."""

from tf_transformer.decoding.split_lines import SplitLines
from tf_transformer.serving.client import Client


class SentenceClient:
    """Splits texts into sentences, translates these, and joins their translations.

    Args:
      client: translates sentences: a `RestClient` or a `GrpcClient`.
      source, target: the language codes of the texts and of their translations.
      batch_size: sentences in a request.
    """

    def __init__(self, client: Client, source: str, target: str, batch_size: int) -> None:
        self._client = client
        self._source = source
        self._target = target
        self._batch_size = batch_size

    def __call__(self, texts: list[str]) -> list[tuple[str, float]]:
        """Translates a list of texts, each of them one line.

        Returns: a list of pairs (translation, score), one for each text; see `SplitLines.join`.
        Raises: what the client does; UserError when the package sentencex is not installed.
        """
        split = SplitLines(texts, self._source, self._target)
        results: list[tuple[str, float]] = []
        for start in range(0, len(split.sentences), self._batch_size):
            results += self._client(split.sentences[start : start + self._batch_size])
        return split.join(results)
