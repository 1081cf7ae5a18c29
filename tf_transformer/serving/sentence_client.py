"""A client that translates each sentence of a text."""

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.split_lines import SplitLines
from tf_transformer.serving.client import (
    Client,
    NotInTimeError,
    RequestTooLargeError,
    UnavailableError,
)


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
        # Texts -> the results of their first sentences, when the server did not answer after them.
        self._unfinished: dict[tuple[str, ...], list[tuple[str, float]]] = {}

    def __call__(self, texts: list[str]) -> list[tuple[str, float]]:
        """Translates a list of texts, each of them one line.

        A call that is repeated after an UnavailableError continues after the sentences that were
        answered. Otherwise a rate limit could refuse one of its requests in each attempt. A request
        for one text that is too large, or that the server does not compute in time, is sent in
        halves; that of several texts is left to `translate_lines`, which sends them in halves.

        Returns: a list of pairs (translation, score), one for each text; see `SplitLines.join`.
        Raises: what the client does; UserError when the package sentencex is not installed.
        """
        split = SplitLines(texts, self._source, self._target)
        results = self._unfinished.pop(tuple(texts), [])
        size = self._batch_size
        try:
            while left := split.sentences[len(results) :]:
                size = min(size, len(left))
                try:
                    results += self._client(left[:size])
                except RequestTooLargeError:
                    if len(texts) > 1:
                        raise
                    if size == 1:
                        results.append(("", NEGATIVE_INFINITY))
                    size = max(1, size // 2)
                except NotInTimeError:
                    if len(texts) > 1 or size == 1:
                        raise
                    size //= 2
        except UnavailableError as error:
            # Several texts whose request was not computed in time are not sent together again.
            if len(texts) == 1 or not isinstance(error, NotInTimeError):
                self._unfinished[tuple(texts)] = results
            raise
        return split.join(results)
