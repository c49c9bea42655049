"""Who uses which card: one program at a time on each, cards that stopped answering taken out.

A lock is a file that every KOPE of this user sees, so that two of them never time on one card. Programs of others are
not seen: keep the card to yourself while times are taken.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kope.errors import MachineError

_LOOK_EVERY_S = 0.05


class CardPool:
    """Hands out cards. ids: numbers for ASCEND_RT_VISIBLE_DEVICES. wait_s: how long a busy card is waited for."""

    def __init__(self, ids: Sequence[int], folder: Path, *, wait_s: float = 1800.0) -> None:
        self.ids = tuple(ids)
        self._folder = folder
        self._wait_s = wait_s
        self._last: int | None = None

    def usable(self) -> tuple[int, ...]:
        """Return the cards that are not taken out. Raises MachineError when none is left, with how to get one back."""
        left = tuple(number for number in self.ids if not self._mark(number).exists())
        if not left:
            marks = ", ".join(str(self._mark(number)) for number in self.ids)
            raise MachineError(
                f"every card hung twice and was taken out; reset it (npu-smi set -t reset -i ID) and delete {marks}"
            )
        return left

    def take_out(self, card: int, reason: str) -> None:
        """Use a card no more, in this and in later runs, until its mark is deleted."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mark(card).write_text(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {reason}\n", "utf-8")

    def taken_out(self) -> dict[int, tuple[Path, str]]:
        """Return the cards that were taken out, each with its mark and the reason in it."""
        marks = {number: self._mark(number) for number in self.ids}
        return {number: (mark, mark.read_text("utf-8").strip()) for number, mark in marks.items() if mark.exists()}

    @contextmanager
    def card(self, *, same: bool = False) -> Iterator[int]:
        """Have a card to oneself. same: the one had last, even if that means waiting: two cards are not equally fast.

        Raises MachineError when all stay busy for too long, or none is left.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + self._wait_s
        while True:
            usable = self.usable()
            for number in (self._last,) if same and self._last in usable else usable:
                handle = os.open(self._folder / f"card-{number}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                if _locked(handle):
                    self._last = number
                    try:
                        yield number
                    finally:
                        os.close(handle)
                    return
                os.close(handle)
            if time.monotonic() >= deadline:
                raise MachineError(
                    f"every card was busy for {self._wait_s:.0f} s; end what else uses them and run again"
                )
            time.sleep(_LOOK_EVERY_S)

    def _mark(self, card: int) -> Path:
        return self._folder / f"card-{card}.out"


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
