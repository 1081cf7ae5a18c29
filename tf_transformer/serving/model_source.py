"""Where the versions of a model are, and which of them a server serves."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError
from tf_transformer.export.versions import check_model_name

if TYPE_CHECKING:
    from tf_transformer.serving.model_interface import LoadModel, Model


def load_saved_model(path: str, concurrency: int) -> Model:
    """Loads a version of a SavedModel; imports TensorFlow."""
    from tf_transformer.serving.loaded_model import LoadedModel

    return LoadedModel(path, concurrency)


def ctranslate2_loader(compute_type: str) -> LoadModel:
    """Returns a function that loads a version of an export for CTranslate2.

    Args:
      compute_type: of `CTranslate2Model`.
    Raises: UserError when the package ctranslate2 is not installed.
    """
    from tf_transformer.export.ctranslate2_translator import installed_version

    installed_version()

    def load(path: str, concurrency: int) -> Model:
        from tf_transformer.serving.ctranslate2_model import CTranslate2Model

        return CTranslate2Model(path, concurrency, compute_type)

    return load


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model and its version policy, as in TensorFlow Serving.

    Attributes:
      name: of the model.
      folder: of its versions.
      latest: how many of the newest versions are served; None for all of them.
      specific: the only versions that are served; empty for the policy in `latest`.
      labels: label -> version.
      load: loads a version.
    """

    name: str
    folder: str
    latest: int | None = 1
    specific: frozenset[int] = frozenset()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    load: LoadModel = load_saved_model

    def wanted(
        self,
        in_folder: Collection[int],
        served: Collection[int] = (),
        failed: Collection[int] = (),
    ) -> list[int]:
        """Returns the versions to serve, newest first.

        A version whose folder was removed is in memory. With a number of newest versions it stays
        until newer ones take its place: an older one never does. With all versions, only the newest
        one stays.

        Args:
          in_folder: the versions in the folder.
          served: those in memory.
          failed: those that cannot be loaded.
        """
        if self.specific:
            return sorted(self.specific.difference(failed), reverse=True)
        kept = set(served) if self.latest else set(sorted(served)[-1:])
        return sorted(kept.union(in_folder).difference(failed), reverse=True)[: self.latest]


def one_model(folder: str, name: str, load: LoadModel = load_saved_model) -> list[ModelSource]:
    """Returns the source of one model whose newest version is served.

    Args:
      folder: of its versions.
      name: of the model.
      load: loads a version.
    Raises: UserError when the folder does not exist, or the name cannot be part of a URL.
    """
    check_model_name(name)
    if not os.path.isdir(folder):
        raise UserError(
            f"{folder} is not a folder: export a model with `tf-transformer export`, or give "
            "another --export_dir"
        )
    return [ModelSource(name, folder, load=load)]
