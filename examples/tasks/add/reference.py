"""Addition with a factor."""


def reference(x1, x2, *, alpha):
    return x1 + alpha * x2
