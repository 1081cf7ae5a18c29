"""Checkpoints: paths, save, restore, average, and loading a model folder."""
