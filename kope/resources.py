"""Where KOPE's own data files are: inside the package in a wheel, beside it in a checkout.

The only module that knows about the two, and so how more of KOPE is installed; it reads nothing.
"""

from __future__ import annotations

import shlex
import sys
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


def install(extra: str) -> str:
    """Return the one command that brings an extra to this installation."""
    here = checkout()
    if here is None:
        return f"{sys.executable} -m pip install 'kope[{extra}]'"
    if Path(sys.prefix) == here / ".venv":
        return f"{shlex.quote(str(here / 'scripts' / 'install'))} {extra}"
    spec = shlex.quote(f"{here}[{extra}]")
    return f"{sys.executable} -m pip install -c {shlex.quote(str(here / 'constraints.txt'))} -e {spec}"
