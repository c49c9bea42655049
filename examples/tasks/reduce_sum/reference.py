"""Sum over the last axis."""

import numpy as np


def reference(x):
    return np.sum(x, axis=-1)
