"""Candidates that public harnesses of this field have been fooled with, on operators where they would pay.

Each names the check that stops it (kope/evaluate/checks.py) and the kinds of finding that may say so.
"""

from __future__ import annotations

from .wrong_means import MEANS, MEMORY
from .wrong_results import LEARNED, STRUCTURE, VALUES

CHEATS = [*STRUCTURE, *VALUES, *LEARNED, *MEMORY, *MEANS]
