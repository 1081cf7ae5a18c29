"""The figures of notebook 04 whose code is not part of the lesson."""

from course.plots import plot_product

import numpy as np


def plot_layer_norm_steps(x, gamma, beta):
    """Plots the steps of layer normalization: x (S, D), gamma and beta (D)."""
    centered = x - x.mean(axis=-1, keepdims=True)
    normalized = centered / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
    return plot_product(
        ("x", x),
        "→",
        ("x - μ", centered),
        "→",
        ("(x - μ) / σ", normalized),
        "→",
        ("γ · ... + β", gamma * normalized + beta),
    )
