"""Confines one program from the inside: the launcher that `sandbox` puts around everything foreign.

Standard library only and no import of the rest of KOPE, since a fresh interpreter must get through it in milliseconds.
"""
