"""Translation of many lines by a server with TensorFlow Serving's REST interface."""

import collections
import itertools
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import urllib3

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.text_batches import Translation
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

Results = list[Translation]

EXAMPLE = "http://127.0.0.1:8501"
TIMEOUT = urllib3.Timeout(connect=5.0, read=120.0)
# Pauses of 0.2, 0.4, ... seconds, at most 10: about five minutes in all.
ATTEMPTS = 36
# A request that is too large, or that the server does not compute in time, is sent in halves.
TOO_LARGE = (413, 504)
MAX_SHOWN_CHARACTERS = 500  # of a server's error message


class _Retry(urllib3.Retry):
    """Says when a server does not answer for about a second."""

    def increment(self, *arguments: Any, **named: Any) -> Any:
        """Is called by urllib3 after each attempt that failed."""
        retry = super().increment(*arguments, **named)
        if len(retry.history) == 3:
            logger.warning("the server is busy or away: trying again")
        return retry


class RestClient:
    """Translates over REST. It waits and tries again while the server is busy or away.

    Args:
      server: its address, such as "http://127.0.0.1:8501"; "http://" may be left out. A user and a
        key, as in "https://anna:KEY@host", are sent by basic authentication.
      name: of the model.
      attempts: to send a request while the server does not answer.
    Raises: UserError when the address is not an HTTP URL.
    """

    def __init__(self, server: str, name: str, attempts: int) -> None:
        url = server if "://" in server else f"http://{server}"
        try:
            parsed = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError:
            parsed = urllib3.util.Url()
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise UserError(f"server {server!r} is not a URL: give one such as {EXAMPLE}")
        self._url = f"{parsed._replace(auth=None).url.rstrip('/')}/v1/models/{name}:predict"
        retries = _Retry(
            attempts,
            redirect=5,
            allowed_methods=None,  # a prediction may be repeated
            status_forcelist=[429, 502, 503],
            backoff_factor=0.2,
            backoff_max=10,
            backoff_jitter=0.1,
            respect_retry_after_header=False,  # a second each time would be 36 in all
            raise_on_status=False,
        )
        headers = urllib3.make_headers(basic_auth=parsed.auth)
        self._http = urllib3.PoolManager(
            headers=headers, maxsize=64, retries=retries, timeout=TIMEOUT
        )

    def translate(self, texts: list[str]) -> Results:
        """Translates texts.

        Returns: pairs (translation, score), of type `Translation`, whose lengths are not known. A
          text that is too long even alone has an empty translation and the score -1e9.
        Raises: UserError.
        """
        try:
            response = self._http.request("POST", self._url, json={"inputs": {"text": texts}})
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise UserError(f"no answer from {self._url}: {reason}") from error
        if response.status in TOO_LARGE and len(texts) > 1:
            half = len(texts) // 2
            return self.translate(texts[:half]) + self.translate(texts[half:])
        if response.status == 413:
            return [Translation(("", NEGATIVE_INFINITY))]
        try:
            answer = response.json()
        except ValueError:  # it is not JSON
            answer = None
        match response.status, answer:
            case 200, {"outputs": {"translation": [*found], "score": [*scores], **others}} if (
                len(found) == len(scores) == len(texts)
            ):
                cut: Any = others.get("truncated", [False] * len(texts))  # older exports have none
                pairs = zip(zip(found, scores), cut)
                return [Translation(pair, truncated=each) for pair, each in pairs]
            case 200, {"outputs": _}:
                raise UserError(f"the model at {self._url} is not one that tf-transformer exported")
            case status, {"error": str(message)}:
                message = " ".join(message.split())[:MAX_SHOWN_CHARACTERS]
                raise UserError(f"{self._url} returned status {status}: {message}")
        raise UserError(
            f"{self._url} returned status {response.status}: this is not a TensorFlow Serving REST "
            "server; give another --server"
        )


def translate_lines(
    client: RestClient,
    lines: Iterable[str],
    first_line: int = 1,
    batch_size: int = 32,
    concurrency: int = 4,
) -> Iterator[Translation]:
    """Translates lines with several requests in flight.

    Args:
      client: a `RestClient`.
      lines: an iterable of strings, read lazily.
      first_line: number of the first one, for errors.
      batch_size: lines in a request.
      concurrency: requests at the same time.
    Yields: a `Translation` of each, in the order of the lines; see `RestClient.translate`.
    Raises: UserError, whose message has the numbers of the lines of the request.
    """
    lines = iter(lines)
    batches = iter(lambda: list(itertools.islice(lines, batch_size)), [])
    pending: collections.deque[tuple[int, Future[Results]]] = collections.deque()
    executor = ThreadPoolExecutor(concurrency)
    try:
        for number, batch in zip(itertools.count(first_line, batch_size), batches):
            pending.append((number, executor.submit(client.translate, batch)))
            if len(pending) == concurrency:
                yield from _result(*pending.popleft())
        while pending:
            yield from _result(*pending.popleft())
    finally:
        # After Ctrl-C or an error, the answers to the other requests are not needed.
        executor.shutdown(wait=False, cancel_futures=True)


def _result(line_number: int, future: Future[Results]) -> Results:
    try:
        return future.result()
    except UserError as error:
        raise UserError(f"{error} (in the request from line {line_number} on)") from error
