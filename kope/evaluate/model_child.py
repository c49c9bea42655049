"""How KernelBench and MultiKernelBench fill and call a model file: seeds, weights, inputs, float64 and own precision.

Runs in the sandboxed process of origin_child.py. Weights and inputs come from the seeds of the suite's own evaluation,
in its order, on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


class Suite:
    """One model file."""

    def __init__(self, request: Mapping[str, Any], module: Any) -> None:
        self.module = module
        self.recipe: Mapping[str, Any] = request["recipe"]
        self.parameters: Sequence[Mapping[str, Any]] = request["parameters"]
        self.seed: int = request["seed"] + self.recipe["seed"]
        self.many_trials = hasattr(module, "get_input_groups") or self.recipe["seed"] != 42

    def inputs(self, case: Mapping[str, Any]) -> list[Any]:
        """Return the case's tensors in the order of the task's inputs: those of forward, then the weights."""
        with torch.no_grad():
            model = self._model()
            group = self._group(case["row"]["group"])
        by_name = dict(zip(self.recipe["forward"], group, strict=False))
        weights = model.state_dict()
        flat: list[Any] = []
        for parameter in self.parameters:
            if parameter["kind"] == "attr":
                continue
            key = self.recipe["weights"].get(parameter["name"])
            value = weights[key] if key is not None else by_name.get(parameter["name"])
            members = list(value) if isinstance(value, list | tuple) else [value]
            flat += [*members, *[None] * (len(parameter["inputs"]) - len(members))]
        return flat

    def _model(self) -> Any:
        torch.manual_seed(self.seed)
        init = self.module.get_init_inputs()
        torch.manual_seed(self.seed)
        return self.module.Model(*init)

    def _group(self, number: int) -> list[Any]:
        """Return the inputs of a trial. KernelBench draws a seed for it; MultiKernelBench goes on after the weights."""
        if hasattr(self.module, "get_input_groups"):
            return list(self.module.get_input_groups()[number])
        if not self.many_trials:
            torch.manual_seed(self.seed)
            torch.manual_seed(int(torch.randint(0, 2**32 - 1, (1,)).item()))
        return list(self.module.get_inputs())

    def oracle(self, case: Mapping[str, Any], given: Sequence[Any]) -> list[Any]:
        """Return the outputs computed in float64."""
        return self._run(case, [_widened(tensor) for tensor in given], wide=True)

    def native(self, case: Mapping[str, Any], given: Sequence[Any]) -> list[Any]:
        """Return the outputs computed in the case's own dtypes."""
        return self._run(case, given, wide=False)

    def _run(self, case: Mapping[str, Any], given: Sequence[Any], *, wide: bool) -> list[Any]:
        plain = self._plain_values(case)
        tensors = iter(given)
        arguments: list[Any] = []
        weights: dict[str, Any] = {}
        for parameter in self.parameters:
            name = parameter["name"]
            if parameter["kind"] == "attr":
                arguments.append(plain.get(name))
                continue
            members = [next(tensors) for _ in parameter["inputs"]]
            key = self.recipe["weights"].get(name)
            if key is not None:
                weights[key] = members[0]
            else:
                arguments.append(
                    [one for one in members if one is not None] if parameter["kind"] == "list" else members[0]
                )
        with torch.no_grad():
            model = self._model()
            model = model.double() if wide else model
            model.load_state_dict(weights)
            returned = model(*arguments)
        return list(_flat(returned))

    def _plain_values(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Return what get_inputs gives besides tensors, which cannot depend on data."""
        if not any(parameter["kind"] == "attr" for parameter in self.parameters):
            return {}
        self._model()
        return dict(zip(self.recipe["forward"], self._group(case["row"]["group"]), strict=False))

    def output_names(self, returned: Sequence[Any]) -> list[str]:
        """Return names for returned tensors."""
        return ["y"] if len(returned) == 1 else [f"y_{k}" for k in range(len(returned))]


def _widened(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _flat(returned: Any) -> list[Any]:
    if isinstance(returned, torch.Tensor):
        return [returned]
    if isinstance(returned, list | tuple) and returned:
        return [tensor for value in returned for tensor in _flat(value)]
    raise TypeError(f"returned {type(returned).__name__} where a tensor is expected")
