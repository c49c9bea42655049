"""Runs a benchmark by name: `scripts/bench NAME [ARGUMENT...]`. Each is a module here with `run(arguments)`."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
NO_BENCHMARK = {"__main__", "measure"}


def names() -> dict[str, str]:
    """Return every benchmark with the first line of what it says about itself."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        if path.stem not in NO_BENCHMARK:
            said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            found[path.stem] = said.splitlines()[0] if said else ""
    return found


def main(arguments: list[str]) -> int:
    """Run what was asked for; list what there is otherwise."""
    known = names()
    if not arguments or arguments[0] not in known:
        print("usage: scripts/bench NAME [ARGUMENT...]\n")
        for name, said in known.items():
            print(f"  {name:<12} {said}")
        return 0 if not arguments else 2
    from measure import machine

    print(machine())
    importlib.import_module(arguments[0]).run(arguments[1:])
    print(machine())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
