"""Where KOPE's own data files are: beside the package in a wheel, in the sibling folder of a checkout.

The only module that knows about the two; it reads nothing.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def folder(name: str) -> Path:
    """Return the folder `templates` or `schema`. Raises FileNotFoundError when the installation lacks it."""
    package = Path(str(files("kope")))
    for place in (package / name, package.parent / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"KOPE's own folder {name!r} is missing from {package}; install KOPE again")
