"""Per-row symmetric int8 quantization."""

import numpy as np


def reference(x):
    scale = np.max(np.abs(x), axis=-1, keepdims=True) / 127.0
    divisor = np.where(scale > 0.0, scale, 1.0)
    return np.round(x / divisor).astype(np.int8), scale
