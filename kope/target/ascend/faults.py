"""Whose fault it is when the device reports an error: the kernel's, a hang, the environment's or the hardware's.

Reads codes and the runtime's text; the tables are in `vendor`. What follows from it is decided in `runner`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kope.model import Diagnostic
from kope.target.ascend import vendor
from kope.target.ascend.vendor import Blame

_ERROR_STR = re.compile(r"errorStr: ?(.+?)(?:\.(?:\s|$)|$)", re.MULTILINE)
_RET_CODE = re.compile(r"retCode=0x([0-9a-fA-F]+)")
_BLOCK = re.compile(r"blk:(\d+), ?sublk:(\d+)")
_CORE = re.compile(r"core id is (\d+)")
_KERNEL = re.compile(r"fault kernel_name=(\S+?)(?:,|\s|$)")
_ACL_CODE = re.compile(r"\b(?:107|207|507)\d{3}\b")


@dataclass(frozen=True, slots=True)
class Fault:
    """A device error, classified. kind: the slug of its diagnostic."""

    kind: str
    blame: Blame
    message: str

    def diagnostic(self, case_id: str) -> Diagnostic:
        """Return it as a finding about a case."""
        return Diagnostic(self.kind, self.message, remedy=vendor.REMEDIES.get(self.kind, ""), case_id=case_id)


def classify(code: int, text: str) -> Fault:
    """Classify the return code of an acl call together with the runtime's own text (last error, log files).

    The text is more exact than the code, except that a code of the hardware or the environment stands: text that is
    left over from an earlier fault must not blame a kernel. A code nobody knows is an error of unknown blame.
    """
    by_code = vendor.ACL_CODES.get(code)
    if by_code and by_code[1] in ("hardware", "environment"):
        return _fault(by_code, code, text)
    found = by_phrase(text) or by_retcode(text) or by_code
    if found is None:
        return Fault("runtime-error", "unknown", f"the runtime returned {code}, a code that is not known")
    if by_code and by_code[1] == "hang" and found[1] == "kernel":
        found = by_code
    return _fault(found, code, text)


def by_phrase(text: str) -> tuple[str, Blame, str] | None:
    """Return kind, blame and words of the first errorStr in a text that a known phrase fits."""
    for match in _ERROR_STR.finditer(text):
        words = " ".join(match[1].split())
        for pattern, kind, blame in vendor.PHRASES:
            if re.search(pattern, words, re.IGNORECASE):
                return kind, blame, words
    return None


def by_retcode(text: str) -> tuple[str, Blame, str] | None:
    """Return what the task scheduler's retCode in a text means."""
    found = _RET_CODE.search(text)
    return vendor.SCHEDULER_CODES.get(int(found[1], 16)) if found else None


def codes(text: str) -> tuple[int, ...]:
    """Return every acl return code that a text names, in order."""
    return tuple(int(found.group()) for found in _ACL_CODE.finditer(text))


def _fault(found: tuple[str, Blame, str], code: int, text: str) -> Fault:
    kind, blame, words = found
    place = _place(text) if blame in ("kernel", "hang") else ""
    return Fault(kind, blame, f"{words}{place} (the runtime returned {code})")


def _place(text: str) -> str:
    """Where on the device, as far as the text says it."""
    block, core, kernel = _BLOCK.search(text), _CORE.search(text), _KERNEL.search(text)
    parts = [f"kernel {kernel[1]}" if kernel else "", f"block {block[1]}, sub-block {block[2]}" if block else ""]
    parts.append(f"core {core[1]}" if core and not block else "")
    named = ", ".join(filter(None, parts))
    return f" in {named}" if named else ""
