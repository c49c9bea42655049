"""What stands between a candidate and an undeserved verdict: one table, check by target (kope doctor --evaluator).

Every check is somewhere else in the code; a test holds the table against candidates that each of them has to stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TARGETS = ("twin", "ascend")


@dataclass(frozen=True, slots=True)
class Check:
    """One check. kinds: of the diagnostics it gives. missing: target to why it is not enforced there."""

    name: str
    what: str
    kinds: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    def status(self, target: str) -> str:
        """Return "enforced", or why not."""
        reason = self.missing.get(target)
        return f"not enforced: {reason}" if reason else "enforced"


_ONE_CALL = "it calls once per case and times without data; the time must equal that of the run with data"
_SAME_BUFFERS = "timed calls repeat on the buffers of one run"
_MEASURED = "measured times differ; a kernel is promoted when paired runs in turns prove it faster"

CHECKS = (
    Check(
        "structure",
        "outputs are KOPE's own buffers of the expected count, shape and dtype, contiguous; every byte is counted",
        ("wrong-size", "unwritten-output", "no-result"),
    ),
    Check(
        "values",
        "every element within the tolerance of the expected dtype, against the unrounded float64 reference",
        ("wrong-value",),
    ),
    Check("nonfinite", "NaN and inf stand exactly where they are expected, inf with its sign", ("wrong-value",)),
    Check("mean", "the mean error has a limit of its own: half the tolerance, a tenth for integers", ("wrong-value",)),
    Check(
        "fresh-values",
        "before promotion: values drawn for this text alone, from one half of each range",
        ("fresh-values",),
    ),
    Check("other-shape", "before promotion: extents that grew by one, as far as the reference goes", ("other-shape",)),
    Check(
        "poison",
        "outputs and workspace hold NaN or 0x80 before the call; what nothing wrote is not readable unnoticed",
        ("unwritten-output", "uninit", "wrong-value"),
    ),
    Check(
        "guards",
        "nothing is written or read outside the tensors of the call",
        ("gm-oob", "ub-oob", "ub-overflow", "crash"),
    ),
    Check("inputs", "inputs are unchanged after the run", ("input-written", "input-modified")),
    Check(
        "launch", "a kernel must run, and its work must go through the API", ("no-launch", "no-kernel", "untimed-work")
    ),
    Check(
        "floor",
        "no time below launch cost plus bytes over peak bandwidth, none that is not a number",
        ("below-floor", "impossible-time"),
    ),
    Check(
        "two-runs",
        "verified and timed in separate processes; both times must agree",
        ("time-mismatch",),
        {"ascend": _MEASURED},
    ),
    Check(
        "timed-calls",
        "the outputs of one timed call of each case, drawn anew for every run, are compared as well",
        ("timed-call-wrong",),
        {"twin": _ONE_CALL},
    ),
    Check(
        "new-addresses",
        "addresses and values change from one timed call to the next",
        (),
        {"twin": _ONE_CALL, "ascend": _SAME_BUFFERS},
    ),
    Check(
        "source",
        "no foreign headers, inline assembly, runtime-internal names, switches of code generation",
        ("forbidden-include", "forbidden-directive", "forbidden-name", "reserved-name"),
    ),
    Check(
        "symbols",
        "the object links to AscendC and plain C++ only: no host runtime, files, threads, environment, clocks, loader",
        ("forbidden-symbol", "reserved-name"),
    ),
    Check(
        "confinement",
        "the process sees its own input and output files; no network, no other process; bounded time, memory, output",
        (
            "crash",
            "fork-attempt",
            "network-access",
            "forbidden-call",
            "timeout",
            "device-timeout",
            "memory-limit",
            "output-flood",
        ),
    ),
    Check(
        "answers",
        "what the harness says comes over a descriptor of its own, every line with a nonce; printed lines mean nothing",
        ("wrong-value", "unwritten-output", "no-result"),
    ),
)
"""In the order in which a reader asks: values, learning by heart, memory, time, means."""


def table(targets: tuple[str, ...] = TARGETS) -> list[dict[str, Any]]:
    """Return the table as JSON-able rows."""
    return [
        {
            "check": check.name,
            "what": check.what,
            "kinds": list(check.kinds),
            "targets": {target: check.status(target) for target in targets},
        }
        for check in CHECKS
    ]
