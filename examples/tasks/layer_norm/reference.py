"""Layer normalization over the last axis."""

import numpy as np


def reference(x, gamma, beta, *, eps):
    centered = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    return centered / np.sqrt(variance + eps) * gamma + beta
