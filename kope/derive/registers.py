"""Which buffer of the unified buffer holds which value.

A register is one LocalTensor variable of the kernel. Values of loads and outputs have a register of their own: where
storage and compute type agree it is the queue's buffer itself, else a wide slot beside it. Everything else lives in
temporaries. With `reuse`, a value takes over the register of an operand that dies in the same instruction, or any free
one; without, every value has its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kope.derive.program import ACCUMULATING, Program


@dataclass(frozen=True, slots=True)
class Section:
    """Steps that run in one piece of code, in order, and which of them are stored as outputs there.

    known: row values computed before. Loads come right before their first user.
    """

    steps: tuple[int, ...]
    stored: tuple[int, ...]


@dataclass
class Allocation:
    """Registers by step. temps, wides, masks: slots needed (of one tile each; a mask slot holds one bit per element).

    wide: wide slot of the register of a load or an output. first: steps that are the first in their register.
    """

    register: dict[int, str] = field(default_factory=dict)
    wide: dict[str, int] = field(default_factory=dict)
    first: set[int] = field(default_factory=set)
    temps: int = 0
    wides: int = 0
    masks: int = 0


def section(program: Program, members: Collection[int], stored: Sequence[int]) -> Section:
    """Order the steps of a piece of code: as in the program, but every load right before its first user."""
    order: list[int] = []
    for at in sorted(members):
        if program.steps[at].op == "load":
            continue
        for arg in program.steps[at].args:
            if arg in members and program.steps[arg].op == "load" and arg not in order:
                order.append(arg)
        order.append(at)
    return Section(tuple(order), tuple(stored))


def allocate(
    program: Program, part: Section, names: Mapping[int, str], reuse: bool, staying: Mapping[int, str] | None = None
) -> Allocation:
    """Give every whole or column value of a section its register.

    names: of loads and stored outputs, by step. staying: registers of values made elsewhere that must not change.
    """
    return _Allocator(program, part, names, reuse, staying or {}).run()


class _Allocator:
    def __init__(
        self, program: Program, part: Section, names: Mapping[int, str], reuse: bool, staying: Mapping[int, str]
    ) -> None:
        self.program, self.part, self.reuse = program, part, reuse
        self.names = names
        self.staying = set(staying)
        self.made = Allocation(register=dict(staying))
        self.free: list[str] = []
        self.place = {step: at for at, step in enumerate(part.steps)}
        self.last = self._last_uses()
        self.wanted = self._preferences()

    def _last_uses(self) -> dict[int, int]:
        last = {step: at for step, at in self.place.items()}
        for step, at in self.place.items():
            for arg in self.program.steps[step].args:
                if arg in last:
                    last[arg] = max(last[arg], at)
        for step in self.part.stored:
            last[step] = len(self.part.steps)
        return last

    def _preferences(self) -> dict[int, str]:
        """Registers fixed from outside, and carried back through instructions that write over their first operand."""
        wanted = {step: self.names[step] for step in self.part.steps if step in self.names}
        for step in reversed(self.part.steps):
            if self.program.steps[step].op in ACCUMULATING and step in wanted:
                wanted.setdefault(self.program.steps[step].args[0], wanted[step])
        return wanted

    def run(self) -> Allocation:
        for step in self.part.steps:
            self._place(step)
        self._wide_slots()
        return self.made

    def _place(self, step: int) -> None:
        node = self.program.steps[step]
        if node.space == "row":
            return
        if node.mask:
            self.made.register[step] = f"mask{self.made.masks}"
            self.made.masks += 1
            return
        dying = self._dying(step)
        name = self._choose(step, dying)
        if name not in self.made.register.values():
            self.made.first.add(step)
        self.made.register[step] = name
        if self.reuse:
            self.free.extend(old for old in dying if old != name and old not in self.free)
            if name in self.free:
                self.free.remove(name)

    def _dying(self, step: int) -> list[str]:
        """Registers of operands that nothing reads after this step."""
        at = self.place[step]
        names = []
        for arg in self.program.steps[step].args:
            name = self.made.register.get(arg)
            free = name and arg not in self.staying and self.last[arg] == at
            if name and free and not self.program.steps[arg].mask and name not in names:
                names.append(name)
        return names

    def _choose(self, step: int, dying: list[str]) -> str:
        node = self.program.steps[step]
        if node.op in ACCUMULATING:
            return self.made.register[node.args[0]]
        if step in self.wanted:
            return self.wanted[step]
        if self.reuse:
            same = [name for name in dying if self._space_of(name) == node.space]
            if same:
                return same[0]
            if self.free:
                return self.free.pop(0)
        self.made.temps += 1
        return f"t{self.made.temps - 1}"

    def _space_of(self, name: str) -> str:
        steps = [step for step, register in self.made.register.items() if register == name]
        return self.program.steps[steps[-1]].space

    def _wide_slots(self) -> None:
        """Wide slots of loads and outputs; with reuse, one slot serves registers that are never live together."""
        outside = list(dict.fromkeys(self.names[step] for step in self.part.steps if step in self.names))
        spans = {name: self._span(name) for name in outside}
        holders: list[str] = []
        for name in sorted(outside, key=lambda item: spans[item]):
            slot = next((k for k, held in enumerate(holders) if self._follows(spans[held], spans[name])), len(holders))
            holders[slot : slot + 1] = [name]
            self.made.wide[name] = slot
        self.made.wides = len(holders)

    def _follows(self, before: tuple[int, int], after: tuple[int, int]) -> bool:
        """Whether a register may take over the slot of another one. In the very instruction that reads the old value
        last only where both have the same shape: a column value is read again for every row that is written."""
        if not self.reuse or before[1] > after[0]:
            return False
        step = self.program.steps[self.part.steps[after[0]]]
        return before[1] < after[0] or all(self.program.steps[arg].space == step.space for arg in step.args)

    def _span(self, name: str) -> tuple[int, int]:
        steps = [step for step, register in self.made.register.items() if register == name and step in self.place]
        return min(self.place[step] for step in steps), max(self.last[step] for step in steps)
