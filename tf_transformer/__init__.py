"""Attention Is All You Need, in TensorFlow.

`__init__.pyi` has the public names. They are imported when they are first used, so that
`tf-transformer --help` does not wait for TensorFlow.
"""

import sys
from typing import Any

import lazy_loader
import wrapt

__version__ = "0.3.0"

_public_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used.

    Raises: ImportError where Keras has another backend than TensorFlow.
    """
    try:
        value = _public_name(name)
        if (keras := sys.modules.get("keras")) and keras.backend.backend() != "tensorflow":
            raise ImportError(f"the backend of Keras is {keras.backend.backend()!r}")
    except ImportError as error:
        from tf_transformer.host import keras_mistake

        raise ImportError(keras_mistake() or str(error)) from error
    if "keras" in sys.modules:
        _register()
    return value


def _register(keras: Any = None) -> None:
    """Imports what registers itself for `keras.models.load_model`.

    This follows the import of Keras, or of a public name where a module of this package has
    imported Keras: it could not be imported again at that time.
    """
    modules = ("tf_transformer.model", "tf_transformer.training")
    if keras and (sys.modules.keys() & set(modules) or keras.backend.backend() != "tensorflow"):
        return
    import tf_transformer.model.transformer
    import tf_transformer.training.loss
    import tf_transformer.training.schedule  # noqa: F401


wrapt.register_post_import_hook(_register, "keras")
