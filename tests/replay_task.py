"""A small real task and the real evaluator on the replay target: a whole run without a compiler."""

from __future__ import annotations

from pathlib import Path

from kope.evaluate import CaseLibrary, ReferenceRunner, TaskEvaluator
from kope.target.replay import ReplayTarget, outputs_of

TOML = """
text = "Twice the input: y = 2 * x."
inputs = { x = { range = [1, 2] } }
outputs = { y = "same:x" }
cases = [
  { dtype = "float32", shape = [40, 100] },
  { dtype = "float32", shape = [64] },
  { dtype = "float16", shape = [33] },
  { dtype = "bfloat16", shape = [17, 5] },
  { dtype = "float16", shape = [3000] },
]
"""
REFERENCE = "def reference(x):\n    return 2 * x\n"


def write_task(folder: Path, name: str = "double") -> Path:
    """Write the task's folder and return it."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "task.toml").write_text(TOML, encoding="utf-8")
    (place / "reference.py").write_text(REFERENCE, encoding="utf-8")
    return place


def replay_target(delay_s: float = 0.0) -> ReplayTarget:
    """Return a replay target that knows what is right for the task."""
    return ReplayTarget(outputs_of(lambda x: 2 * x, ("x",)), delay_s=delay_s)


def replay_evaluator(cache: Path, delay_s: float = 0.0) -> TaskEvaluator:
    """Return the real evaluator on the replay target."""
    return TaskEvaluator(replay_target(delay_s), CaseLibrary(cache / "cases", ReferenceRunner()))


def marked(time_us: float, words: str = "") -> str:
    """Return a source that the target answers for."""
    return f"// replay: time_us={time_us} {words}".rstrip() + "\n"
