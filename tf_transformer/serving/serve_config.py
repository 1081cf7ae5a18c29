"""The settings of the server."""

import dataclasses

from tf_transformer.config import Settings, setting


@dataclasses.dataclass(frozen=True)
class ServeConfig(Settings):
    """The REST server, for hosts without TensorFlow Serving; not a part of `Config`."""

    host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 accepts all networks")
    port: int = setting(8501, "port to listen on", minimum=0, maximum=65_535)
    max_batch_size: int = setting(
        32, "maximum number of texts of different requests in one batch", minimum=1
    )
    max_batch_tokens: int = setting(
        1024,
        "maximum size of a batch of several texts: texts x source sub-words of the longest one",
        minimum=1,
    )
    concurrent_batches: int = setting(
        1,
        "batches of short texts, and batches of texts of more than 64 sub-words, that are computed "
        "at a time",
        minimum=1,
        maximum=256,
    )
    max_queue: int = setting(
        100, "maximum number of waiting requests; others get status 503", minimum=1
    )
    max_rows: int = setting(
        256, "maximum number of texts in a request; larger requests get status 413", minimum=1
    )
    max_rows_alone: int = setting(
        8, "the same for score and alignments, whose responses can be large", minimum=1
    )
    max_request_tokens: int = setting(
        16_384,
        "maximum number of sub-words of all texts of a request; larger ones get status 413",
        minimum=1,
    )
    max_request_bytes: int = setting(
        2**20, "maximum size of a request; larger ones get status 413", minimum=1
    )
    max_connections: int = setting(
        1000,
        "maximum number of connections at the same time; requests of others get status 503",
        minimum=1,
        maximum=10**6,
    )
    timeout: float = setting(
        60.0,
        "seconds to receive a request (else status 408), and to compute its response (else 504)",
        minimum=0.1,
        maximum=86_400,
    )
    grace_seconds: float = setting(
        20.0,
        "seconds to answer pending requests after SIGTERM; the others get status 503",
        minimum=0.0,
        maximum=86_400,
    )
    reload_seconds: float = setting(
        2.0, "seconds between checks for a new version", minimum=0.1, maximum=86_400
    )
