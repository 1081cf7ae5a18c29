"""Plots, the attention viewer, and the training history."""
