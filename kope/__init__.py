"""KOPE: optimize hardware kernels with a memory of every attempt."""

__version__ = "0.1.0"
