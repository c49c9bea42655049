"""What l2_normalize computes."""

import numpy as np


def reference(x, *, eps):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)
