"""The experience graph memory: one SQLite file with every attempt, what it taught, and how to find it again.

The only package with SQL. Assembling a prompt from what is recalled is context's business.
"""

from __future__ import annotations

from kope.memory.check import Problem
from kope.memory.forget import Forgotten, Selection
from kope.memory.info import Info
from kope.memory.query import Filters, MemoryMode, RecallQuery, Scope
from kope.memory.record import REWIND, Prompt
from kope.memory.sessions import Ask, Session
from kope.memory.show import Surroundings
from kope.memory.stats import Stats
from kope.memory.store import Store

__all__ = [
    "REWIND",
    "Ask",
    "Filters",
    "Forgotten",
    "Info",
    "MemoryMode",
    "Problem",
    "Prompt",
    "RecallQuery",
    "Scope",
    "Selection",
    "Session",
    "Stats",
    "Store",
    "Surroundings",
]
