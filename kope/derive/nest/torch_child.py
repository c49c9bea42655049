"""Captures a PyTorch reference in the sandboxed child: a case's call as a graph of tensors, or a reason."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kope.derive.nest.cases import arguments_of, capture_cases
from kope.derive.tape import REFERENCE_FILE

_LARGEST_CONSTANT = 64


def main(request: Path, reply: Path) -> None:
    """Capture every case of a request."""
    capture_cases(request, reply, captured)


def captured(function: Any, native: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The graph of one case, and the dtypes of what it returns."""
    return {**translated(exported(function, case), case), "native": native_dtypes(native, case)}


def exported(function: Any, case: dict[str, Any]) -> Any:
    """The program torch.export makes of the call, in core ATen. Nothing is computed: inputs are fake."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Reference(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def forward(self, *tensors: Any) -> Any:
            return function(**arguments_of(case, tensors))

    with FakeTensorMode(allow_non_fake_inputs=True):
        tensors = tuple(
            torch.empty(item["shape"], dtype=wide_dtype(torch, item["dtype"])) for item in case["inputs"] if item
        )
    with torch.no_grad(), warnings.catch_warnings(), converting_anew(torch.nn):
        warnings.simplefilter("ignore")  # PyTorch's about itself
        program = torch.export.export(Reference(), tensors, strict=False)
        return program.run_decompositions()


@contextmanager
def converting_anew(nn: Any) -> Iterator[None]:
    """Modules that a reference builds get new parameters when it converts them: fake ones cannot change in place."""
    in_place, parameter = nn.Module._apply, nn.Parameter

    def convert(module: Any, function: Any, recurse: bool = True) -> Any:
        for child in module.children() if recurse else ():
            child._apply(function)
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    made = function(tensor)
                    held[name] = parameter(made, tensor.requires_grad) if held is module._parameters else made
        return module

    nn.Module._apply = convert
    try:
        yield
    finally:
        nn.Module._apply = in_place


def native_dtypes(function: Any, case: dict[str, Any]) -> list[str]:
    """Dtypes that the reference returns for inputs of the case's own dtypes; empty when it cannot say without data."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), converting_anew(torch.nn):
            tensors = tuple(
                torch.empty(item["shape"], dtype=getattr(torch, item["dtype"])) for item in case["inputs"] if item
            )
            returned = function(**arguments_of(case, tensors))
    except Exception:  # noqa: BLE001 - as above
        return []
    values = returned if isinstance(returned, (tuple, list)) else [returned]
    return [dtype_name(value.dtype) for value in values if value is not None]


def wide_dtype(torch: Any, dtype: str) -> Any:
    """References are called with floats as float64."""
    return torch.float64 if "float" in dtype else getattr(torch, dtype)


def translated(program: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The program as a graph of tensors, with the dtypes of what it returns."""
    from kope.derive.nest.tensors import TensorBuilder

    walk = _Walk(TensorBuilder(), program)
    walk.inputs([place for place, item in enumerate(case["inputs"]) if item])
    outputs, dtypes = walk.run()
    return {"graph": walk.builder.finish(outputs).to_json(), "dtypes": dtypes}


class _Walk:
    """Goes through the nodes of an exported program."""

    def __init__(self, builder: Any, program: Any) -> None:
        self.builder, self.program = builder, program
        self.known: dict[Any, Any] = {}

    def inputs(self, places: list[int]) -> None:
        """Placeholders: tensors of the call in order, and constants the reference made."""
        signature = self.program.graph_signature
        users = list(signature.user_inputs)
        constants = {**self.program.constants, **self.program.state_dict}
        targets = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target}
        for node in self.program.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in users:
                value = node.meta["val"]
                place = places[users.index(node.name)]
                self.known[node] = self.builder.input(place, tuple(map(int, value.shape)), kind_of(value.dtype))
            elif node.name in targets:
                self.known[node] = self._constant(constants[targets[node.name]])

    def _constant(self, tensor: Any) -> int:
        """A small tensor of numbers."""
        from kope.errors import DeriveError

        if tensor.numel() > _LARGEST_CONSTANT:
            raise DeriveError(f"the reference makes a table of {tensor.numel()} numbers; give it as an input")
        kind = kind_of(tensor.dtype)
        b = self.builder
        values = [float(value) for value in tensor.flatten().tolist()]
        if len(set(values)) == 1:
            return int(b.expand(b.scalar(values[0], kind), tuple(tensor.shape)))
        parts = [b.reshape(b.scalar(value, kind), [1]) for value in values]
        return int(b.reshape(b.add("cat", parts, (len(parts),), kind, 0), tuple(tensor.shape)))

    def run(self) -> tuple[list[int], list[str]]:
        """Walk; return the outputs and their dtypes. What they do not need is left."""
        needed = self._needed()
        for node in self.program.graph.nodes:
            if node.op == "call_function" and node in needed:
                self.builder.line = line_of(node)
                self.known[node] = self._call(node)
            elif node.op == "output":
                return self._outputs(node)
        raise AssertionError("a program without output")

    def _needed(self) -> set[Any]:
        """Nodes that outputs are made of. What a copy overwrites is not needed for its values."""
        found: set[Any] = set()
        for node in reversed(self.program.graph.nodes):
            if node.op == "output" or node in found:
                overwritten = {node.args[0]} if str(node.target) == "aten.copy.default" else set()
                found.update(item for item in node.all_input_nodes if item not in overwritten)
        return found

    def _outputs(self, node: Any) -> tuple[list[int], list[str]]:
        from kope.errors import DeriveError

        names = list(self.program.graph_signature.user_outputs)
        if self.program.graph_signature.user_inputs_to_mutate:
            raise DeriveError("the reference writes into its inputs; a kernel must not")
        by_name = {item.name: item for item in self.known}
        items = [by_name[name] for name in names if name is not None]
        return [self.known[item] for item in items], [dtype_name(item.meta["val"].dtype) for item in items]

    def _call(self, node: Any) -> Any:
        import operator

        from kope.derive.nest.aten import rule_for
        from kope.derive.nest.call import Call
        from kope.errors import DeriveError

        if node.target is operator.getitem:
            held = self.known[node.args[0]]
            if node.args[1] >= len(held):
                raise DeriveError(f"result {node.args[1]} of {node.args[0].target} has no lowering yet")
            return held[node.args[1]]
        target, _, overload = str(node.target).removeprefix("aten.").partition(".")
        if target.startswith("_assert") or "sym_constrain" in target:
            return None
        if not str(node.target).startswith("aten."):
            raise DeriveError(f"{self._where(node)}{node.target} has no lowering")
        args = [self._argument(arg) for arg in node.args]
        named = {name: self._argument(arg) for name, arg in node.kwargs.items()}
        try:
            return rule_for(target, overload)(Call(self.builder, args, named, result_of(node)))
        except DeriveError as error:
            raise DeriveError(f"{self._where(node)}{error}") from error
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise DeriveError(f"{self._where(node)}{target} in this form has no lowering ({error})") from error

    def _where(self, node: Any) -> str:
        line = line_of(node)
        return f"reference line {line}: " if line else ""

    def _argument(self, arg: Any) -> Any:
        from kope.derive.nest.call import T

        if isinstance(arg, (list, tuple)):
            return [self._argument(item) for item in arg]
        if hasattr(arg, "meta"):
            return T(self.known.get(arg, -1))
        return arg


def line_of(node: Any) -> int:
    """Line of the reference a node comes from, 0 when unknown."""
    found = re.findall(rf'File "[^"]*{re.escape(REFERENCE_FILE)}", line (\d+)', node.meta.get("stack_trace") or "")
    return int(found[-1]) if found else 0


def result_of(node: Any) -> Any:
    """Kind, dtype and shape of what a node gives, of its first tensor."""
    from kope.derive.nest.call import Result

    value = node.meta["val"]
    while isinstance(value, (list, tuple)):
        value = next(item for item in value if item is not None)
    return Result(kind_of(value.dtype), dtype_name(value.dtype), tuple(map(int, value.shape)))


def dtype_name(dtype: Any) -> str:
    """float32, int64, ..."""
    return str(dtype).removeprefix("torch.")


def kind_of(dtype: Any) -> str:
    """float, int or bool."""
    return "float" if dtype.is_floating_point else "bool" if dtype_name(dtype) == "bool" else "int"
