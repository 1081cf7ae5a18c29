"""Attention Is All You Need, in TensorFlow.

`__init__.pyi` has the public names. They are imported when they are first used, so that
`tf-transformer --help` does not wait for TensorFlow.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
