"""The package's metadata; `pip install .` reads it."""

import pathlib
import re

from setuptools import find_packages, setup

here = pathlib.Path(__file__).parent
version = re.search(
    r'^__version__ = "(.+)"', (here / "tf_transformer/__init__.py").read_text("utf-8"), re.M
)[1]

serving = [
    "tensorflow-serving-api>=2.21,<2.22",
    "starlette>=1.0",
    "uvicorn>=0.40",
    "orjson>=3.10",
    "prometheus-client>=0.22",
    "urllib3>=2.2",
]

setup(
    name="tf_transformer",
    version=version,
    description="Attention Is All You Need in TensorFlow: train, translate, evaluate, serve",
    long_description=(here / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    package_dir={
        "": "."
    },  # setuptools then links an editable installation by a plain path, without a warning
    packages=find_packages(include=["tf_transformer", "tf_transformer.*"]),
    package_data={"tf_transformer": ["serving/page.html", "visualization/attention_viewer.html"]},
    python_requires=">=3.10,<3.14",
    install_requires=[
        "tensorflow==2.21.*",
        "tensorflow-text>=2.21.1,<2.22",  # 2.21.0 does not import
        "tensorflow-datasets>=4.9.10",
        "tensorboard>=2.20",  # TensorFlow no longer brings it along
        "sentencepiece>=0.2.1",
        "sacrebleu>=2.5",
        "sacremoses>=0.1.1",
        "absl-py>=2.1",
        "tqdm>=4.66",
        "matplotlib>=3.9",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]==2.21.*"],
        "notebooks": ["jupyterlab>=4.2", "nbconvert>=7.16", "ipykernel>=6.29", *serving],
        "ctranslate2": ["ctranslate2>=4.8"],
        "serving": serving,
        "dev": [
            "pytest>=8.3",
            "pytest-xdist>=3.6",
            "ruff>=0.8",
            "ctranslate2>=4.8",
            "httpx2>=2.16",
            "selenium>=4.30",
            "nbformat>=5.10",
            *serving,
        ],  # fmt: skip
    },
    entry_points={"console_scripts": ["tf-transformer=tf_transformer.__main__:run"]},
)
