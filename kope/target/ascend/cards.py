"""Which NPUs this machine has, which may be used, and how they are: `npu-smi info`, and ASCEND_RT_VISIBLE_DEVICES.

Reading only; who gets a card and when one is taken out is decided in `pool`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kope.errors import MachineError
from kope.target.ascend import vendor

_ROW = re.compile(r"^\|(.*)\|\s*$")


@dataclass(frozen=True, slots=True)
class Card:
    """One chip as npu-smi shows it. id: its number for ASCEND_RT_VISIBLE_DEVICES. npu, chip: its place. name: 910B4."""

    id: int
    npu: int
    chip: int
    name: str
    health: str
    bus: str = ""

    @property
    def healthy(self) -> bool:
        """Whether nothing says that it is not: a word nobody knows is no reason to refuse a card."""
        return not any(word in self.health.upper() for word in vendor.BAD_HEALTH)


@dataclass(frozen=True, slots=True)
class CardReport:
    """What npu-smi said. driver: its version, "" when it names none."""

    cards: tuple[Card, ...]
    driver: str


def read_info(text: str) -> CardReport:
    """Read the table of `npu-smi info`. Two rows are one chip; a second chip of an NPU may repeat only the second row.

    Widths differ between versions: cells are split at the bars, and cells at blanks.
    """
    version = re.search(r"npu-smi\s+(\S+)", text)
    cards: list[Card] = []
    head: tuple[int, str, str] | None = None
    for line in re.split(r"NPU\s+Chip\s*\|", text, maxsplit=1)[0].splitlines():
        found = _ROW.match(line.strip())
        cells = [cell.split() for cell in found[1].split("|")] if found else []
        if len(cells) < 3 or not cells[0] or not cells[0][0].isdigit():
            continue
        first, second = cells[0], cells[1]
        if len(first) >= 2 and not first[1].isdigit():
            head = (int(first[0]), first[1], " ".join(second) or "UNKNOWN")
        elif head is not None and second and ":" in second[0]:
            number = int(first[1]) if len(first) > 1 else len(cards)
            cards.append(Card(number, head[0], int(first[0]), head[1], head[2], second[0]))
    return CardReport(tuple(cards), version[1] if version else "")


def read_chip_name(text: str) -> str:
    """Return the SoC name in `npu-smi info -t board -i N [-c M]`: Chip Name and NPU Name; "" when it names none."""
    fields = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip()] = value.strip()
    chip, npu = fields.get("Chip Name", ""), fields.get("NPU Name", "")
    return f"{chip}_{npu}" if chip and npu and npu not in ("NA", "N/A") else chip


def visible(cards: tuple[Card, ...], inherited: Mapping[str, str]) -> tuple[Card, ...]:
    """Return the cards that ASCEND_RT_VISIBLE_DEVICES leaves, in its order; all of them when it is not set.

    Raises MachineError for a list that names a card which is not there.
    """
    listed = inherited.get(vendor.VISIBLE, "").strip()
    if not listed:
        return cards
    by_id = {card.id: card for card in cards}
    chosen = []
    for word in listed.split(","):
        if not word.strip().isdigit() or int(word) not in by_id:
            known = ", ".join(map(str, by_id)) or "none"
            raise MachineError(f"{vendor.VISIBLE}={listed} names no card of this machine (it has {known}); correct it")
        chosen.append(by_id[int(word)])
    return tuple(chosen)
