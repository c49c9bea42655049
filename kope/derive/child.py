"""The process in which a foreign reference is captured: a plain script under `python -I`, started in the sandbox.

Arguments: the module whose main(request, reply) captures, and the files of its request and reply.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path


def _load_kope() -> None:
    """Make the package importable from its own folder: the one above it cannot be listed in the sandbox."""
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "kope", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kope"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load_kope()
    importlib.import_module(sys.argv[1]).main(Path(sys.argv[2]), Path(sys.argv[3]))
