"""Runs a benchmark by name: `scripts/bench NAME [ARGUMENT...]`. Each is a program of its own in this folder."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> dict[str, str]:
    """Return every benchmark with the first line of what it says about itself."""
    found = {}
    for path in sorted(HERE.glob("[!_]*.py")):
        text = path.read_text("utf-8")
        if 'if __name__ == "__main__":' in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
    return found


def main(arguments: list[str]) -> int:
    """Run what was asked for; list what there is otherwise."""
    known = names()
    if not arguments or arguments[0] not in known:
        print("Usage: scripts/bench NAME [ARGUMENT...]\n")
        for name, said in known.items():
            print(f"  {name:<12} {said}")
        return 0 if not arguments else 2
    from measure import machine

    print(machine())
    sys.argv = arguments
    try:
        runpy.run_path(str(HERE / f"{arguments[0]}.py"), run_name="__main__")
    finally:
        print(machine())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
