"""What a task is, as one hash: everything that decides a verdict, and nothing that does not (text, tags, folder)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from kope.model import AttrValue, Case, Origin, OutputDecl, Tolerance


def task_digest(
    *,
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[OutputDecl],
    attrs: Mapping[str, AttrValue],
    reference: str,
    symbol: str,
    framework: str,
    cases: Sequence[Case],
    tolerance: Mapping[str, Tolerance],
    native: str = "",
    reduction: tuple[str, tuple[int, ...]] | None = None,
    fixed_shapes: bool = False,
    origin: Origin | None = None,
) -> str:
    """Return the sha256 (hex) of a task. The name is in it because input values are drawn from it.

    The last four count only where they are set, so that tasks without them keep their digest. Of an imported task the
    suite's recipe counts, not the folder it was read from nor the times published for it.
    """
    document: dict[str, object] = {
        "name": name,
        "inputs": list(inputs),
        "outputs": [[output.name, output.dtype] for output in outputs],
        "attrs": dict(attrs),
        "reference": reference,
        "symbol": symbol,
        "framework": framework,
        "cases": [case_document(case) for case in cases],
        "tolerance": {dtype: [rule.rtol, rule.atol] for dtype, rule in tolerance.items()},
    }
    source = [origin.suite, origin.unit, dict(origin.recipe)] if origin is not None else None
    optional = {"native": native, "reduction": reduction, "fixed_shapes": fixed_shapes, "origin": source}
    document |= {key: value for key, value in optional.items() if value}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def case_document(case: Case) -> list[object]:
    """Return a case as a JSON-able value: equal exactly when id, inputs, values and attributes are."""
    inputs = [
        None
        if given is None
        else [
            given.spec.name,
            list(given.spec.shape),
            given.spec.dtype,
            given.values.low,
            given.values.high,
            given.values.special,
        ]
        for given in case.inputs
    ]
    return [case.id, inputs, dict(case.attrs)]
