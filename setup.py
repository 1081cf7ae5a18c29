"""The package's metadata; `pip install .` reads it."""

import pathlib
import re

from setuptools import find_packages, setup

here = pathlib.Path(__file__).parent
version = re.search(r'^__version__ = "(.+)"', (here / "tf_transformer/__init__.py").read_text("utf-8"), re.M)[1]

setup(
    name="tf_transformer",
    version=version,
    description="Attention Is All You Need as a TensorFlow/Keras package: train, translate, evaluate",
    long_description=(here / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    packages=find_packages(include=["tf_transformer", "tf_transformer.*"]),
    python_requires=">=3.10,<3.14",
    install_requires=[
        "tensorflow==2.21.*",
        "tensorflow-text>=2.21.1,<2.22",  # 2.21.0 does not import
        "tensorflow-datasets>=4.9.10",
        "tensorboard>=2.20",  # TensorFlow no longer brings it along
        "sentencepiece>=0.2.1",
        "sacrebleu>=2.5",
        "absl-py>=2.1",
        "tqdm>=4.66",
        "matplotlib>=3.9",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]==2.21.*"],
        "notebooks": ["jupyterlab>=4.2", "nbconvert>=7.16", "ipykernel>=6.29"],
        "ctranslate2": ["ctranslate2>=4.8"],
        "dev": ["pytest>=8.3", "ruff>=0.8", "ctranslate2>=4.8"],
    },
    entry_points={"console_scripts": ["tf-transformer=tf_transformer.__main__:run"]},
)
