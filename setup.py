"""Lets tools that call setup.py build the package; its metadata is in pyproject.toml."""

from setuptools import setup

setup()
