"""Residual addition and root-mean-square normalization."""

import numpy as np


def reference(x1, x2, gamma, *, eps):
    x = x1 + x2
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + eps) * gamma, x
