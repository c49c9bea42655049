"""Where KOPE's own data files are: inside the package in a wheel, beside it in a checkout.

The only module that knows about the two; it reads nothing.
"""

from __future__ import annotations

from pathlib import Path

from kope.errors import ConfigError

_PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """Return the folder "templates", "schema" or "examples". Raises ConfigError when the installation lacks it."""
    for place in (_PACKAGE / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise ConfigError(f"KOPE's own folder {name!r} is missing from {_PACKAGE}; install KOPE again")


def shipped_tasks() -> Path:
    """Return the folder of the tasks that come with KOPE. Raises ConfigError when the installation lacks it."""
    return folder("examples") / "tasks"


def checkout() -> Path | None:
    """Return the checkout this package runs from, None when it is installed without one."""
    return _PACKAGE.parent if (_PACKAGE.parent / "setup.cfg").is_file() else None
