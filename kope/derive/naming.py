"""C++ names for the tensors of a kernel, free of clashes with each other, keywords and the skeletons' own names."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TAKEN = frozenset(
    """
    alignas auto bool break case catch char class const continue default delete do double else enum explicit extern
    false float for friend goto half if inline int long namespace new nullptr operator or and not private protected
    public register return short signed sizeof static struct switch template this throw true try typedef typename
    union unsigned using virtual void volatile while xor abs exp log max min sqrt pow tanh sin cos bfloat16_t
    tiling first last count rows columns offset kernel pipe blocks cores share work call given stride slot line index
    block row column total tile padded filled whole span piece pieces left gap bytes local global queue step repeats
    shaped fitting value values buffers stage work part rest
    """.split()  # noqa: SIM905
)


def identifiers(names: Iterable[str], suffix: str, taken: Iterable[str] = ()) -> list[str]:
    """One valid, distinct C++ identifier per name; those that would clash get the suffix, then a number."""
    used = set(taken)
    result = []
    for name in names:
        plain = re.sub(r"_+([a-zA-Z0-9])", lambda found: found[1].upper(), re.sub(r"\W", "_", name)) or "tensor"
        plain = plain if plain[0].isalpha() else f"tensor{plain}"
        if plain in _TAKEN or re.fullmatch(r"(t|r|mask)\d+", plain):
            plain += suffix
        candidate, number = plain, 2
        if candidate in used:
            candidate = plain + suffix
        while candidate in used:
            candidate, number = f"{plain}{suffix}{number}", number + 1
        used.add(candidate)
        result.append(candidate)
    return result
