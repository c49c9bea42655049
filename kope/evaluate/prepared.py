"""Cases made ready: input files for the candidate, reference outputs for the judge, both cached by content.

Inputs and reference outputs lie in two trees: a candidate's sandbox may be shown the first and never the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kope.errors import MachineError, ReferenceError_
from kope.evaluate.cache import ContentCache
from kope.evaluate.capacity import require_room
from kope.evaluate.dtypes import file_dtype, want_dtype
from kope.evaluate.inputs import INPUT_RULES, draw
from kope.evaluate.origin import OriginRunner, origin_key
from kope.evaluate.reference import ReferenceRunner
from kope.model import Case, Task, TensorFile, TensorSpec
from kope.task.digest import case_document

_FORMAT = 2
_META = "meta.json"


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """One case with its files.

    inputs: raw files in the inputs' own dtypes. wants: the expected outputs; `spec` is the expected output (shape and
    dtype a candidate must write), the file holds it in the wider dtype of dtypes.want_dtype.
    input_hash, want_hash: sha256 over the files' contents. keys: the cache entries of both. natives: of an imported
    task, the outputs its reference computes in the case's own dtypes.
    """

    case: Case
    inputs: tuple[TensorFile | None, ...]
    wants: tuple[TensorFile, ...]
    input_hash: str
    want_hash: str
    keys: tuple[str, str]
    natives: tuple[TensorFile, ...] = ()


class CaseLibrary:
    """Prepares cases, once per content. `steps` records the reference programs that were started."""

    def __init__(self, folder: Path, runner: ReferenceRunner, *, limit_bytes: int = 4 << 30) -> None:
        self.inputs = ContentCache(folder / "inputs", limit_bytes // 3)
        self.wants = ContentCache(folder / "wants", limit_bytes - limit_bytes // 3)
        self.runner = runner
        self.origins = OriginRunner(runner.steps)

    def prepare(self, task: Task, cases: Sequence[Case], seed: int = 0) -> list[PreparedCase]:
        """Return the cases in the order given, running the reference where its outputs are not cached.

        Raises ReferenceError_ when the reference cannot be used, MachineError when a case does not fit.
        """
        if task.origin is not None:
            self._make_imported(task, cases, seed)
        input_metas = [self._inputs(task, case, seed) for case in cases]
        wants = {case.id: self._find(self.wants, _want_key(task, case, seed)) for case in cases}
        missing = [(case, meta) for case, meta in zip(cases, input_metas, strict=True) if wants[case.id] is None]
        if missing:
            self._run_reference(task, missing, seed)
            self.inputs.evict()
            self.wants.evict()
        prepared = []
        for case, meta in zip(cases, input_metas, strict=True):
            want = wants[case.id] or self._found(_want_key(task, case, seed))
            prepared.append(_prepared(case, meta, want))
        return prepared

    def prepare_accepted(self, task: Task, cases: Sequence[Case], seed: int) -> list[PreparedCase]:
        """Return those of the cases that the reference gives an answer for."""
        if task.origin is not None:
            try:
                return self.prepare(task, cases, seed)
            except ReferenceError_:
                return []
        metas = {case.id: self._inputs(task, case, seed) for case in cases}
        accepted = []
        with self.wants.stage() as folder:
            jobs = [(case, _tensor_files(metas[case.id])) for case in cases]
            for case, outputs in self.runner.run(task, jobs, folder, keep_going=True):
                key = _want_key(task, case, seed)
                self._publish(folder, case, outputs, key)
                accepted.append(_prepared(case, metas[case.id], self._found(key)))
        return accepted

    def natives(self, task: Task, cases: Sequence[PreparedCase], seed: int = 0) -> list[tuple[TensorFile, ...]]:
        """Return, per case, what the reference gives when it computes as a kernel does, rounded to the outputs' dtypes.

        () where it cannot do that, or gives other shapes then.
        """
        if task.origin is not None:
            return [item.natives for item in cases]
        keys = [sha256_of([_want_key(task, item.case, seed), "native", task.native]) for item in cases]
        missing = [(item, key) for item, key in zip(cases, keys, strict=True) if self._find(self.wants, key) is None]
        if missing:
            with self.wants.stage() as folder:
                jobs = [(item.case, item.inputs) for item, _ in missing]
                run = self.runner.run(task, jobs, folder, native=True, keep_going=True)
                outputs = {case.id: tuple(map(_rounded, files)) for case, files in run}
                for item, key in missing:
                    found = outputs.get(item.case.id, ())
                    fits = [file.spec for file in found] == [want.spec for want in item.wants]
                    self._publish(folder, item.case, found if fits else (), key)
        return [tuple(file for file in _tensor_files(self._found(key)) if file is not None) for key in keys]

    def answer_hashes(
        self, task: Task, item: PreparedCase, changed: Callable[[Path], Iterable[tuple[TensorFile | None, ...]]]
    ) -> Iterator[str]:
        """Run the reference on changed inputs of a case and yield, for those it accepts, what `want_hash` would be.

        changed: gives the inputs, their files written to the folder it is called with.
        """
        with self.wants.stage() as folder:
            copies = folder / "changed"
            copies.mkdir()
            jobs = [
                (replace(item.case, id=f"{item.case.id}-changed{count}"), inputs)
                for count, inputs in enumerate(changed(copies))
            ]
            with contextlib.suppress(ReferenceError_):
                for outputs in self._answers(task, jobs, folder):
                    yield sha256_of([_hash_file(output.path) for output in outputs])

    def _answers(
        self, task: Task, jobs: Sequence[tuple[Case, tuple[TensorFile | None, ...]]], folder: Path
    ) -> Iterator[tuple[TensorFile, ...]]:
        if task.origin is not None:
            yield from (both.wants for _, both in self.origins.references(task, jobs, folder))
        else:
            yield from (outputs for _, outputs in self.runner.run(task, jobs, folder, keep_going=True))

    def remembered(self, key: str, find: Callable[[], Sequence[float]]) -> tuple[float, ...]:
        """Return numbers kept under a key beside the expected outputs, found once."""
        if self._find(self.wants, key) is None:
            facts = list(find())
            with self.wants.stage() as folder:
                entry = folder / "facts"
                entry.mkdir()
                _write_meta(entry, (), facts=facts)
                self.wants.publish(entry, key)
        return tuple(self._found(key)["facts"])

    def drop(self, prepared: PreparedCase) -> None:
        """Forget a case whose files cannot be trusted any more."""
        self.inputs.drop(prepared.keys[0])
        self.wants.drop(prepared.keys[1])

    def untouched(self, prepared: PreparedCase) -> bool:
        """Whether the input files are still those that were made."""
        return self._find(self.inputs, prepared.keys[0]) is not None

    def _inputs(self, task: Task, case: Case, seed: int) -> dict[str, Any]:
        key = _input_key(task, case, seed)
        meta = self._find(self.inputs, key)
        if meta is not None:
            return meta
        with self.inputs.stage() as folder:
            require_room(task.name, case, folder)
            files: list[dict[str, Any] | None] = []
            for k, given in enumerate(case.inputs):
                if given is None:
                    files.append(None)
                    continue
                data = draw(task.name, case.id, given, seed)
                data.tofile(folder / f"{k}.bin")
                spec = given.spec
                files.append(
                    _file_entry(folder / f"{k}.bin", spec, hashlib.sha256(data.view(np.uint8).data).hexdigest())
                )
            _write_meta(folder, files)
            self.inputs.publish(folder, key)
        found = self._find(self.inputs, key)
        if found is None:
            raise MachineError(f"{self.inputs.folder}: cannot keep files; free space or set another cache folder")
        return found

    def _run_reference(self, task: Task, missing: Sequence[tuple[Case, dict[str, Any]]], seed: int) -> None:
        """Run all missing cases in one child; what it finished before failing is kept."""
        with self.wants.stage() as folder:
            for case, _ in missing:
                require_room(task.name, case, folder)
            jobs = [(case, _tensor_files(meta)) for case, meta in missing]
            if task.origin is not None:
                for case, both in self.origins.references(task, jobs, folder):
                    self._publish(folder, case, both.wants, _want_key(task, case, seed), both.natives)
                return
            for case, outputs in self.runner.run(task, jobs, folder):
                self._publish(folder, case, outputs, _want_key(task, case, seed))

    def _make_imported(self, task: Task, cases: Sequence[Case], seed: int) -> None:
        """Have the task's suite fill the cases that are not cached, all in one child."""
        missing = [case for case in cases if self._find(self.inputs, _input_key(task, case, seed)) is None]
        if not missing:
            return
        with self.inputs.stage() as folder:
            for case in missing:
                require_room(task.name, case, folder)
            for case, files in self.origins.make_inputs(task, missing, folder, seed):
                target = folder / f"case-{case.id}"
                entries = [
                    None if file is None else _file_entry(file.path, file.spec, _hash_file(file.path)) for file in files
                ]
                _write_meta(target, entries)
                self.inputs.publish(target, _input_key(task, case, seed))

    def _publish(
        self,
        folder: Path,
        case: Case,
        outputs: Sequence[TensorFile],
        key: str,
        natives: Sequence[TensorFile] = (),
    ) -> None:
        target = folder / f"case-{case.id}"
        target.mkdir(exist_ok=True)
        files, own = (
            [_file_entry(item.path, item.spec, _hash_file(item.path)) for item in some] for some in (outputs, natives)
        )
        _write_meta(target, files, own)
        self.wants.publish(target, key)

    def _found(self, key: str) -> dict[str, Any]:
        """Return an entry that was just published."""
        found = self._find(self.wants, key)
        if found is None:
            raise MachineError(f"{self.wants.folder}: an entry vanished while in use; run the command again")
        return found

    def _find(self, cache: ContentCache, key: str) -> dict[str, Any] | None:
        """Return an entry's description when all of its files are as they were published; drop it otherwise."""
        entry = cache.find(key)
        if entry is None:
            return None
        try:
            meta: dict[str, Any] = json.loads((entry / _META).read_text())
            for item in (*meta["files"], *meta["natives"]):
                if item is not None:
                    stat = (entry / item["file"]).stat()
                    if [stat.st_size, stat.st_mtime_ns] != item["stamp"]:
                        raise ValueError(item["file"])
        except (OSError, ValueError, KeyError):
            cache.drop(key)
            return None
        return meta | {"folder": entry, "key": key}


def _rounded(output: TensorFile) -> TensorFile:
    """Round a stored output to its own dtype, as a kernel would write it."""
    assert output.path is not None
    wide = np.fromfile(output.path, want_dtype(output.spec.dtype))
    with np.errstate(all="ignore"):
        wide.astype(file_dtype(output.spec.dtype)).tofile(output.path)
    return output


def _file_entry(path: Path | None, spec: TensorSpec, digest: str) -> dict[str, Any]:
    assert path is not None
    path.chmod(0o444)
    stat = path.stat()
    return {
        "file": path.name,
        "name": spec.name,
        "shape": list(spec.shape),
        "dtype": spec.dtype,
        "sha256": digest,
        "stamp": [stat.st_size, stat.st_mtime_ns],
    }


def _write_meta(
    folder: Path,
    files: Sequence[Mapping[str, Any] | None],
    natives: Sequence[Mapping[str, Any]] = (),
    **facts: object,
) -> None:
    (folder / _META).write_text(json.dumps({"files": list(files), "natives": list(natives), **facts}))


def _hash_file(path: Path | None) -> str:
    assert path is not None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tensor_files(meta: Mapping[str, Any], kind: str = "files") -> tuple[TensorFile | None, ...]:
    return tuple(
        None
        if item is None
        else TensorFile(TensorSpec(item["name"], tuple(item["shape"]), item["dtype"]), meta["folder"] / item["file"])
        for item in meta[kind]
    )


def _prepared(case: Case, inputs: Mapping[str, Any], wants: Mapping[str, Any]) -> PreparedCase:
    return PreparedCase(
        case=case,
        inputs=_tensor_files(inputs),
        wants=tuple(item for item in _tensor_files(wants) if item is not None),
        input_hash=_combined(inputs),
        want_hash=_combined(wants),
        keys=(inputs["key"], wants["key"]),
        natives=tuple(item for item in _tensor_files(wants, "natives") if item is not None),
    )


def _combined(meta: Mapping[str, Any]) -> str:
    return sha256_of([item and item["sha256"] for item in meta["files"]])


def _input_key(task: Task, case: Case, seed: int) -> str:
    if task.origin is not None:
        return sha256_of([_FORMAT, "inputs", origin_key(task, case, seed)])
    return sha256_of([_FORMAT, INPUT_RULES, np.__version__, task.name, case_document(case)[:2], seed])


def _want_key(task: Task, case: Case, seed: int) -> str:
    if task.origin is not None:
        return sha256_of([_FORMAT, "wants", origin_key(task, case, seed)])
    outputs = [[output.name, output.dtype] for output in task.outputs]
    rules = [_FORMAT, INPUT_RULES, np.__version__, ml_dtypes.__version__, platform.machine()]
    return sha256_of(
        [rules, task.name, task.reference, task.symbol, task.framework, outputs, case_document(case), seed]
    )


def sha256_of(document: object) -> str:
    """Return the sha256 (hex) of a JSON-able value."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
