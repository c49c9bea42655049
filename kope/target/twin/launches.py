"""Rewrites kernel launches, `k<<<blocks, ub, stream>>>(args)`, into calls an ordinary C++ compiler understands.

Text in, text out; every line stays where it was. Whether the arguments make sense is left to the compiler.
"""

from __future__ import annotations

import re
from itertools import islice

from kope.target.twin.source import mask

_MAX_LAUNCHES, _MAX_CHARS = 512, 4096
"""Launches that are looked at, and how far around each: what goes beyond is no kernel, and is left to the compiler."""
_NAME = re.compile(r"(?<![\w:])(?:::\s*)?(?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*$")


def rewrite_launches(source: str) -> str:
    """Turn `k<T><<<blocks, ub, stream>>>(args)` into `::kope_twin::launch("k<T>", k<T>, blocks, ub, stream)(args)`.

    The text around stays byte for byte the same, so that lines keep their numbers. A launch that cannot be understood
    is left as it is: the compiler then names its line.
    """
    masked = mask(source)
    pieces: list[str] = []
    done = 0
    for match in islice(re.finditer(r"<<<", masked), _MAX_LAUNCHES):
        start = _callee_start(masked, match.start())
        end = _configuration_end(masked, match.end())
        if start < done or start < 0 or end < 0:
            continue
        callee = source[start : match.start()].rstrip()
        name = " ".join(callee.split()).replace("\\", "").replace('"', "'")
        gap = source[start + len(callee) : match.start()]
        pieces += [source[done:start], f'::kope_twin::launch("{name}", {callee}{gap}, ', source[match.end() : end], ")"]
        done = end + 3
    pieces.append(source[done:])
    return "".join(pieces)


def _callee_start(masked: str, end: int) -> int:
    """Return where the kernel's name before `<<<` begins, -1 when there is no name."""
    position = _skip_blanks_back(masked, end)
    if position and masked[position - 1] == ">":
        position = _angle_start(masked, position - 1)
        if position < 0:
            return -1
        position = _skip_blanks_back(masked, position)
    window = max(0, position - _MAX_CHARS)
    match = _NAME.search(masked, window, position)
    return match.start() if match else -1


def _skip_blanks_back(masked: str, end: int) -> int:
    while end and masked[end - 1] in " \t\r\n":
        end -= 1
    return end


def _angle_start(masked: str, closing_angle: int) -> int:
    angles, brackets = 0, 0
    for offset in range(closing_angle, max(-1, closing_angle - _MAX_CHARS), -1):
        char = masked[offset]
        if char in ")]}":
            brackets += 1
        elif char in "([{":
            brackets -= 1
            if brackets < 0:
                return -1
        elif char == ">" and not brackets and masked[offset - 1 : offset] != "-":
            angles += 1
        elif char == "<" and not brackets:
            angles -= 1
            if not angles:
                return offset
        elif char == ";":
            return -1
    return -1


def _configuration_end(masked: str, start: int) -> int:
    """Return where the `>>>` stands that ends a launch configuration, -1 when there is none."""
    depth = 0
    for offset in range(start, min(len(masked), start + _MAX_CHARS)):
        char = masked[offset]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return -1
        elif char == ";" and not depth:
            return -1
        elif char == ">" and not depth and re.match(r">>>\s*\(", masked[offset : offset + 200]):
            return offset
    return -1
