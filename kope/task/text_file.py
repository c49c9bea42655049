"""Reads a text file of a task folder that somebody else may have made; what the text means is for the formats."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kope.errors import TaskError

_MOST_BYTES = 64 << 20


def read_text(file: Path, remedy: str = "make it readable") -> str:
    """Return a file's text.

    Raises TaskError when it is not there, no plain file (opening a pipe would wait for ever), larger than 64 MiB, not
    UTF-8, or not readable; remedy: what to do in the last case, and in the first.
    """
    try:
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise TaskError(f"{file}: not a plain file; replace it by one")
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TaskError(f"{file}: {error.strerror}; {remedy}") from error
    if len(data) > _MOST_BYTES:
        raise TaskError(f"{file}: larger than {_MOST_BYTES >> 20} MiB; restore the file that belongs there")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(f"{file}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
