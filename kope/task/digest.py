"""What a task is, as one hash: everything that decides a verdict, and nothing that does not (text, tags, folder)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from kope.model import AttrValue, Case, OutputDecl, Tolerance


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
) -> str:
    """Return the sha256 (hex) of a task. The name is in it because input values are drawn from it."""
    document = {
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
