"""The twin: Ascend C vector kernels compiled and run on an ordinary Linux machine, defects found, times modelled."""

from kope.target.twin.target import TwinTarget

__all__ = ["TwinTarget"]
