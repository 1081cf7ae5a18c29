"""The commands serve and client."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from absl.flags import FlagValues

from tf_transformer.checkpoints import model_folder, pretrained
from tf_transformer.cli.engine import ctranslate2_versions, loader, uses_ctranslate2
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export.versions import check_model_name, list_versions
from tf_transformer.serving.model_config import read_model_config
from tf_transformer.serving.model_source import ModelSource, load_saved_model, one_model
from tf_transformer.serving.serve_config import ServeConfig

if TYPE_CHECKING:
    from tf_transformer.serving.access import Access
    from tf_transformer.serving.client import RestClient
    from tf_transformer.serving.grpc_client import GrpcClient

logger = logging.getLogger(__name__)

MAX_LISTED_LINES = 20  # line numbers in an error message
INTERACTIVE_MAX_WAIT = 10.0  # seconds


def serve(values: FlagValues) -> None:
    """Serves an exported model over HTTP until SIGINT or SIGTERM."""
    config = ServeConfig(**given(values, (ServeConfig,)))
    if values.export_dir and values.model_dir:
        raise UserError("--export_dir and --model_dir: give one of them")
    if values["rate_burst"].present and not config.rate_limit:
        raise UserError("--rate_burst is for --rate_limit")
    sources = _configured_models(values)
    check_model_name(values.name)
    model_dir = "" if sources or values.export_dir else _find_model(values.model_dir)
    load = loader(values)
    # A wrong setting is reported before TensorFlow, the export and the model are loaded.
    access, bound = _check_settings(config)
    with bound:
        loaders = [source.load for source in sources] or [load]
        if load_saved_model in loaders or config.grpc_port:
            start_tensorflow()
        from tf_transformer.serving.server import Server

        if sources:
            Server(sources, config, access).run(bound)
            return
        find_versions = ctranslate2_versions if uses_ctranslate2(values) else _export_to_serve
        with find_versions(values.export_dir, model_dir) as folder:
            Server(one_model(folder, values.name, load), config, access).run(bound)


def _configured_models(values: FlagValues) -> list[ModelSource]:
    """Returns the models of --model_config_file; [] without one. Raises: UserError."""
    if not values.model_config_file:
        return []
    for name in ("model_dir", "export_dir", "name", "engine"):
        if values[name].present:
            raise UserError(
                f"--{name} is for one model, and --model_config_file names the models: give one "
                "of them"
            )
    return read_model_config(values.model_config_file)


def _check_settings(config: ServeConfig) -> tuple[Access, socket.socket]:
    """Returns who may use the server, and a socket with its address. Raises: UserError."""
    with explain_missing_package():
        from tf_transformer.serving.access import Access
        from tf_transformer.serving.access_log import AccessLog
        from tf_transformer.serving.connections import bind_address

    access = Access(config)
    if config.access_log:
        AccessLog(config.access_log).close()  # it must be writable
    return access, bind_address(config)


def _find_model(model_dir: str | None) -> str:
    """Returns the folder of the given model, or of the default one. Raises: UserError."""
    model_dir = pretrained.find_model_dir(model_dir) if model_dir else pretrained.default_model()
    model_folder.load_config(model_dir)  # a wrong folder is reported before TensorFlow is loaded
    return model_dir


@contextlib.contextmanager
def _export_to_serve(export_dir: str | None, model_dir: str) -> Iterator[str]:
    """Yields the folder of the versions to serve. A built-in model is exported first.

    The export of a read-only model folder is where `export` writes it by default.
    """
    if export_dir:
        yield export_dir
        return
    if not pretrained.is_built_in(model_dir):
        folder = os.path.join(model_dir, "export", "saved_model")
        if not os.path.isdir(folder):
            folder = os.path.join(pretrained.writable_folder(model_dir), "export", "saved_model")
        _warn_of_old_export(folder, model_dir)
        yield folder
        return
    from tf_transformer.export.cache import built_in_export

    with built_in_export(model_dir) as folder:
        yield folder


def _warn_of_old_export(folder: str, model_dir: str) -> None:
    """Warns where a model has been trained since its newest version was exported."""
    versions = list_versions(folder)
    if not versions:
        return
    version = os.path.join(folder, str(versions[0]))
    # The model may have no weights any more, and files may be removed just now.
    with contextlib.suppress(OSError, UserError):
        if model_folder.is_older_than_model(version, model_dir):
            command = f"tf-transformer export --model_dir={shlex.quote(model_dir)}"
            message = "%s is older than the files of the model; to export it again: `%s`"
            logger.warning(message, version, command)


def client(values: FlagValues) -> None:
    """Translates lines with a server."""
    from tf_transformer.cli.partial_output import open_translations
    from tf_transformer.data.text_files import read_lines
    from tf_transformer.serving.client import MAX_WAIT, Client, translate_lines
    from tf_transformer.serving.sentence_client import SentenceClient

    for name in ("source", "target"):
        if values[name].present and not values.split_sentences:
            raise UserError(f"--{name} is for --split_sentences")
    server = _connect(values)
    translate_texts: Client = server
    if values.split_sentences:
        translate_texts = SentenceClient(server, values.source, values.target, values.batch_size)
    interactive = not values.input and sys.stdin.isatty()
    # In interactive use, each line is answered at once, and a person waits for the answer.
    batch_size = 1 if interactive else values.batch_size
    concurrency = 1 if interactive else values.concurrency
    max_wait = INTERACTIVE_MAX_WAIT if interactive else MAX_WAIT
    if values.max_wait is not None:
        max_wait = values.max_wait
    lines = read_lines(values.input)
    name = values.input or "standard input"
    with open_translations(
        values.output, server.address, values.name, values.split_sentences, lines, name
    ) as output:
        sources: collections.deque[str] = collections.deque()  # the lines without a translation
        results = translate_lines(
            translate_texts, _append_each(lines, sources), batch_size, concurrency, max_wait,
            first_line=output.written + 1,
        )  # fmt: skip
        for translation, score in results:
            output.write(sources.popleft(), translation, score)
    if output.too_long:
        numbers = ", ".join(map(str, output.too_long[:MAX_LISTED_LINES]))
        if len(output.too_long) > MAX_LISTED_LINES:
            numbers += ", ..."
        raise UserError(
            "lines too long for the model or the server, with an empty translation: "
            f"{numbers}; split them"
        )


def _connect(values: FlagValues) -> RestClient | GrpcClient:
    """Returns a client of the server that the flags name. Raises: UserError."""
    from tf_transformer.serving.api_keys import client_key

    key = client_key(values.api_key_file)
    if values.grpc and values["server"].present:
        raise UserError("--grpc and --server: give one of them")
    if values.grpc:
        start_tensorflow()
        from tf_transformer.serving.grpc_client import GrpcClient

        return GrpcClient(values.grpc, values.name, values.timeout, key, values.tls_ca)
    from tf_transformer.serving.client import RestClient

    return RestClient(values.server, values.name, values.timeout, key, values.tls_ca)


def _append_each(lines: Iterable[str], to: collections.deque[str]) -> Iterator[str]:
    """Yields lines, and appends each of them to a queue."""
    for line in lines:
        to.append(line)
        yield line
