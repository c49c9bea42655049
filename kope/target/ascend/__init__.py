"""The real toolchain: CANN's compiler, an NPU and the vendor's profilers. Never run on hardware so far (see vendor)."""

from __future__ import annotations

from kope.target.ascend.target import AscendTarget

__all__ = ["AscendTarget"]
