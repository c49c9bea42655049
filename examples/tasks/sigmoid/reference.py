"""The logistic function."""

import numpy as np


def reference(x):
    return 1.0 / (1.0 + np.exp(-x))
