"""Core ATen operators as nodes of a graph of tensors: which rule translates which.

Which graph is walked, and in which process, is torch_child.py's business.
"""

from __future__ import annotations

from kope.derive.nest import aten_elementwise, aten_layout, aten_places, aten_products, aten_reductions
from kope.derive.nest.call import Rule
from kope.errors import DeriveError

RULES: dict[str, Rule] = {
    **aten_elementwise.RULES,
    **aten_layout.RULES,
    **aten_reductions.RULES,
    **aten_products.RULES,
    **aten_places.RULES,
}


def rule_for(target: str, overload: str) -> Rule:
    """The rule of an operator. Raises DeriveError for one without."""
    if target == "scatter" and "reduce" in overload:
        return aten_places.scatter_mode
    if target in ("max", "min") and overload == "default":
        op = f"a{target}"
        return lambda c: c.b.reduce(op, c.node(0), range(len(c.shape(0))))
    if target not in RULES:
        raise DeriveError(f"{target} has no lowering yet")
    return RULES[target]
