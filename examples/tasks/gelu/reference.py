"""GELU, tanh form."""

import numpy as np


def reference(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + np.tanh(inner))
