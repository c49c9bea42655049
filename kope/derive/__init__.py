"""From a task's reference to a first kernel, without a model, and the named moves that lead on from there.

What is tried next, and what was learned before, is the search's business.
"""

from __future__ import annotations

from kope.derive.capture import capture_graph
from kope.derive.emit import emit
from kope.derive.first import first_kernel, first_schedule
from kope.derive.graph import Graph
from kope.derive.schedule import Schedule

__all__ = ["Graph", "Schedule", "capture_graph", "emit", "first_kernel", "first_schedule"]
