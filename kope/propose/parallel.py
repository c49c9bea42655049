"""Several blocking calls at once, without keeping an interrupted program from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_parallel(works: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """Run each in a thread of its own and return what it returned or raised, in order.

    Daemon threads: on Ctrl-C the caller goes on at once, and calls in flight end with the process.
    """
    results: list[T | BaseException] = [RuntimeError("it did not run")] * len(works)

    def run(place: int, work: Callable[[], T]) -> None:
        try:
            results[place] = work()
        except BaseException as error:  # noqa: BLE001 - handed on to the caller
            results[place] = error

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
