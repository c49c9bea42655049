"""What several commands need before they can begin: the task meant, the candidate given."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kope.errors import ConfigError

if TYPE_CHECKING:
    from kope.config import Settings
    from kope.model import Candidate, Task


def task_folders(settings: Settings) -> list[Path]:
    """Return the folders tasks are looked up in by name, the user's before the shipped ones."""
    from kope.task import shipped_folder

    return [*settings.task_path, shipped_folder()]


def the_task(settings: Settings, name: str) -> Task:
    """Return the task meant by a folder or a name. Raises TaskError."""
    from kope.task import find_task

    return find_task(name, task_folders(settings))


SOURCE_BYTES = 4 << 20
"""The longest source or reply that is read; what is longer is another file than the one that was meant."""


def read_candidate(file: Path) -> Candidate:
    """Return a candidate from a file, or from standard input for "-".

    Raises ConfigError when it is no UTF-8 text, or longer than SOURCE_BYTES.
    """
    from kope.model import Candidate

    name = "standard input" if str(file) == "-" else str(file)
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as stream:
            data = stream.read(SOURCE_BYTES + 1)
        if len(data) > SOURCE_BYTES:
            raise ConfigError(f"{name}: longer than {SOURCE_BYTES >> 20} MiB; give the file that holds the source")
        return Candidate.of(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 at byte {error.start}; save the source as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}; give the file that holds the source") from error


def db_words(settings: Settings) -> str:
    """Return the words a command needs to work on the same database, "" for the one it would take anyway."""
    return f" --db {shlex.quote(str(settings.db))}" if settings.origins["db"].kind == "flag" else ""
