"""Faster implementations of functions that `model` and `training` define, with equal values."""
