"""Scaling of what a mask lets through."""


def reference(x, mask, *, scale):
    return x * mask * scale
