"""The file of `serve --model_config_file`: TensorFlow Serving's ModelServerConfig, as text.

    model_config_list {
      config {
        name: "en-de"
        base_path: "/models/en-de"
        model_platform: "tensorflow"
        model_version_policy { specific { versions: 1 versions: 3 } }
        version_labels { key: "stable" value: 1 }
      }
    }

A policy is `latest { num_versions: N }`, `all {}` or `specific { ... }`; without one, the newest
version is served. The platform "ctranslate2" is for exports for CTranslate2.
"""

import os
import re
from typing import Any

from tf_transformer.errors import SERVING_API, UserError, explain_missing_package
from tf_transformer.export.versions import MAX_VERSION, check_model_name, list_versions
from tf_transformer.serving.model_source import ModelSource, ctranslate2_loader, load_saved_model
from tf_transformer.serving.small_file import read_small_file

TENSORFLOW, CTRANSLATE2 = "tensorflow", "ctranslate2"  # platforms
FIELDS = ("name", "base_path", "model_platform", "model_version_policy", "version_labels")


def read_model_config(path: str) -> list[ModelSource]:
    """Reads the models to serve.

    Args:
      path: of the file. A relative `base_path` in it begins at the folder of the file.
    Raises: UserError with the line or the model of a mistake, or when tensorflow-serving-api is not
      installed.
    """
    models = _parse(path).model_config_list.config
    if not models:
        raise UserError(f"{path} has no model: write model_config_list {{ config {{ ... }} }}")
    sources: list[ModelSource] = []
    for number, model in enumerate(models, 1):
        place = f"{path}, config {number}"
        source = _read_model(model, place, os.path.dirname(path))
        if source.name in [other.name for other in sources]:
            raise UserError(f"{place}: name {source.name!r} is that of another config already")
        sources.append(source)
    return sources


def _parse(path: str) -> Any:
    """Returns the ModelServerConfig in a file. Raises: UserError."""
    with explain_missing_package(SERVING_API):
        from google.protobuf import text_format
        from tensorflow_serving.config import model_server_config_pb2
    text = read_small_file(path, "models")
    try:
        return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    except text_format.ParseError as error:
        # The message begins with line and column, and may quote a long line.
        reason = re.sub(r"^\d+:\d+ : ", "", str(error))[:300]
        line = f", line {error.GetLine()}" if error.GetLine() else ""
        raise UserError(f"{path}{line}: {reason}") from None


def _read_model(model: Any, place: str, folder: str) -> ModelSource:
    """Reads a ModelConfig. Raises: UserError that begins with `place`."""
    if not model.name:
        raise UserError(f"{place}: name is missing")
    check_model_name(model.name, f"{place}: name")
    place = f"{place} ({model.name})"
    for field, _ in model.ListFields():
        if field.name not in FIELDS:
            raise UserError(f"{place}: {field.name} is not supported: remove it")
    if not model.base_path:
        raise UserError(f"{place}: base_path is missing: give the folder of the versions")
    if model.model_platform not in (TENSORFLOW, CTRANSLATE2):
        wrong = f"is {model.model_platform!r}" if model.model_platform else "is missing"
        raise UserError(
            f'{place}: model_platform {wrong}: write model_platform: "{TENSORFLOW}", or '
            f'"{CTRANSLATE2}"'
        )
    is_tensorflow = model.model_platform == TENSORFLOW
    load = load_saved_model if is_tensorflow else ctranslate2_loader("default")
    base_path = os.path.join(folder, model.base_path)
    if not os.path.isdir(base_path):
        raise UserError(f"{place}: base_path {base_path} is not a folder")
    latest, specific = _read_policy(model.model_version_policy, place)
    labels = dict(model.version_labels)
    source = ModelSource(model.name, base_path, latest, specific, labels, load)
    _check_labels(source, place)
    return source


def _read_policy(policy: Any, place: str) -> tuple[int | None, frozenset[int]]:
    """Reads a ServableVersionPolicy. Returns: `latest` and `specific` of a `ModelSource`."""
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return None, frozenset()
    if kind != "specific":
        return max(1, policy.latest.num_versions), frozenset()  # 0 is 1 in TensorFlow Serving
    specific = frozenset(policy.specific.versions)
    if not specific:
        raise UserError(f"{place}: specific has no versions: write versions: N for each version")
    for version in specific:
        if not 0 <= version <= MAX_VERSION:
            raise UserError(f"{place}: {version} in specific is not a version: give 0 or more")
    return None, specific


def _check_labels(source: ModelSource, place: str) -> None:
    """Raises: UserError for a label of a version that is not served."""
    served = source.wanted(list_versions(source.folder))
    for label, version in sorted(source.labels.items()):
        if not re.fullmatch(r"[^/:]+", label):
            raise UserError(f"{place}: the label {label!r} cannot be part of a URL")
        if version not in served:
            known = ", ".join(map(str, served)) or "none"
            raise UserError(
                f"{place}: the label {label!r} is for version {version}, which the policy does not "
                f"serve (it serves: {known}): give another version or model_version_policy"
            )
