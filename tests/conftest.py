"""Which tests run: slow ones on demand or a seeded tenth, those that need PyTorch where it is installed."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import signal
import socket
import struct
from pathlib import Path

import hypothesis
import pytest

from kope import process

# The same examples everywhere and nothing kept between runs: a test that fails fails for everybody.
hypothesis.settings.register_profile("kope", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("kope")

ROOT = Path(__file__).parents[1]
SAMPLE = 10
SAMPLED_MINUTES = 3
"""A proof that says it takes longer (`slow(minutes=20)`) is never drawn: what runs everything has a time limit too."""
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose tests."""
    group = parser.getgroup("kope")
    group.addoption("--slow", action="store_true", help="run the slow tests too")
    group.addoption("--slow-sample", action="store_true", help="run a tenth of the slow tests, chosen by --slow-seed")
    group.addoption("--slow-seed", default="", help="seed of the sample; default: the commit")
    group.addoption("--everything", action="store_true", help="an extra that is not installed is a failure")


def pytest_configure(config: pytest.Config) -> None:
    """Make this process one that tests can use: they talk to servers of their own, and interrupt themselves."""
    _raise_loopback()
    # A shell that starts a run in the background has it ignore interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _raise_loopback() -> None:
    """Make loopback usable in a fresh network namespace, where it is down."""
    name_and_flags = struct.pack("16sh14x", b"lo", 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            now = struct.unpack("16sh14x", fcntl.ioctl(handle, _GET_FLAGS, name_and_flags))[1]
            if not now & 1:
                fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh14x", b"lo", now | 1))
        except OSError:
            pass  # not ours to change; the tests that need it will say so


def pytest_report_header(config: pytest.Config) -> str | None:
    """Show how to choose the same sample again."""
    return f"slow sample: --slow-seed={_seed(config)}" if config.getoption("--slow-sample") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what was not asked for."""
    has_torch = importlib.util.find_spec("torch") is not None
    for item in items:
        if item.get_closest_marker("slow") and not _runs(config, item):
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))
        needed = item.get_closest_marker("extra")
        if needed and importlib.util.find_spec(needed.args[0]) is None and not config.getoption("--everything"):
            item.add_marker(pytest.mark.skip(reason=f"needs {needed.args[0]}: scripts/test --all brings it"))
        if item.get_closest_marker("torch") and not has_torch and not config.getoption("--everything"):
            item.add_marker(pytest.mark.skip(reason="needs PyTorch: pip install 'kope[torch]'"))


def _runs(config: pytest.Config, item: pytest.Item) -> bool:
    if config.getoption("--slow"):
        return True
    marker = item.get_closest_marker("slow")
    minutes = marker.kwargs.get("minutes", 1) if marker else 0
    if not config.getoption("--slow-sample") or minutes > SAMPLED_MINUTES:
        return False
    digest = hashlib.sha256(f"{_seed(config)} {item.nodeid}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % SAMPLE == 0


def _seed(config: pytest.Config) -> str:
    given = str(config.getoption("--slow-seed"))
    if given:
        return given
    head = process.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, timeout_s=20.0)
    return head.stdout.strip() or "0"


@pytest.fixture(scope="session")
def twin_cache() -> Path:
    """Return a folder for the twin's build products that outlives the run: building its runtime takes half a minute.

    Everything in it is addressed by content and made under a lock, so parallel runs share it.
    """
    folder = ROOT / ".pytest_cache" / "twin"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
