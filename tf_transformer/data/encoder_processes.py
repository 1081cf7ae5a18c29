"""Encodes sentence pairs in several processes."""

import collections
import concurrent.futures
import contextlib
import itertools
import pickle
import queue
import subprocess
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from tf_transformer.data.corpus import WeightedPair
from tf_transformer.data.encoded_pairs import Shard
from tf_transformer.data.pair_encoder import PairEncoder
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores

Chunk = TypeVar("Chunk")
ChunkOf = TypeVar("ChunkOf", contravariant=True)
ALONE = 8  # chunks that are encoded without other processes, which take half a second to start


class Encoder(Protocol[ChunkOf]):
    """What encodes a chunk, in this process or in another one, to which it is pickled."""

    def encode(self, chunk: ChunkOf, /) -> Shard:
        """Encodes the pairs of a chunk."""
        ...


def encode_chunks(
    encoder: PairEncoder, chunks: Iterable[list[WeightedPair]]
) -> Generator[Shard, None, None]:
    """Encodes lists of pairs, on all cores where there are many.

    Args:
      encoder: a `PairEncoder`.
      chunks: the lists, none of them empty. They are read as they are needed.
    Yields: a `Shard` for each list, in their order. Close the generator to end the processes.
    Raises: what `chunks` raises; UserError when the system kills a process.
    """
    chunks = iter(chunks)
    cores = number_of_cores()
    yield from map(encoder.encode, chunks if cores == 1 else itertools.islice(chunks, ALONE))
    if (chunk := next(chunks, None)) is not None:
        yield from encode_in_processes(encoder, itertools.chain([chunk], chunks), cores)


def encode_in_processes(
    encoder: Encoder[Chunk], chunks: Iterable[Chunk], number: int
) -> Generator[Shard, None, None]:
    """As `encode_chunks`, in `number` processes. At most two chunks a process are in memory."""
    processes = [_EncoderProcess(encoder) for _ in range(number)]
    idle: queue.SimpleQueue[_EncoderProcess[Chunk]] = queue.SimpleQueue()
    for process in processes:
        idle.put(process)

    def encode(chunk: Chunk) -> Shard:
        process = idle.get()
        try:
            return process.encode(chunk)
        finally:
            idle.put(process)

    pending: collections.deque[Future[Shard]] = collections.deque()
    threads = concurrent.futures.ThreadPoolExecutor(number)
    try:
        for chunk in chunks:
            pending.append(threads.submit(encode, chunk))
            if len(pending) == 2 * number:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for process in processes:
            process.kill()
        threads.shutdown(cancel_futures=True)  # the processes have ended, so no thread waits long
        for process in processes:
            process.close()


class _EncoderProcess(Generic[Chunk]):
    """A process that runs `pair_encoder.serve`.

    `multiprocessing` would run the main script of the user again in each process.

    Args:
      encoder: what encodes there.
    """

    def __init__(self, encoder: Encoder[Chunk]) -> None:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from tf_transformer.data.pair_encoder import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C on the terminal does not reach it
        )
        self._encoder: Encoder[Chunk] | None = encoder  # which is not sent yet

    def encode(self, chunk: Chunk) -> Shard:
        """Encodes pairs in the process. Raises: UserError when the system has killed it."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests and answers
        try:
            if self._encoder:
                pickle.dump(self._encoder, requests)
                self._encoder = None
            pickle.dump(chunk, requests, pickle.HIGHEST_PROTOCOL)
            requests.flush()
            return pickle.load(answers)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            code = self._process.wait()
        if code < 0:
            raise UserError(
                f"a process that encodes the text was killed by signal {-code}; if memory is "
                "short, stop other programs. Start again: encoding continues where it stopped"
            )
        raise RuntimeError(f"a process that encodes the text ended with exit code {code}")

    def kill(self) -> None:
        """Ends the process."""
        self._process.kill()

    def close(self) -> None:
        """Releases the pipes of an ended process."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # something is left that it has not read
                pipe.close()  # type: ignore[union-attr]
