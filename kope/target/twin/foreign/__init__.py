"""Ascend C that was not written for KOPE, on the twin: programs with their own main, kernels of operator projects."""

from kope.target.twin.foreign.run import Foreign, ForeignRun

__all__ = ["Foreign", "ForeignRun"]
