"""The experience graph memory: one SQLite file with every attempt, what it taught, and how to find it again.

The only package with SQL. Assembling a prompt from what is recalled is context's business.
"""

from __future__ import annotations

from kope.memory.query import Filters, MemoryMode, RecallQuery, Scope
from kope.memory.store import Prompt, Session, Store

__all__ = ["Filters", "MemoryMode", "Prompt", "RecallQuery", "Scope", "Session", "Store"]
