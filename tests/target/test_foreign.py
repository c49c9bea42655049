"""Ascend C that was not written for KOPE: programs, operator projects, and what is said when they cannot be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kope.errors import LaunchError, ToolMissing
from kope.target.twin import TwinTarget
from kope.target.twin.foreign import Foreign, ForeignRun, description, project

from .launching import KERNELS, changed, line_of

HERE = Path(__file__).parent / "foreign"
KERNEL = HERE / "project" / "op_kernel" / "scale.cpp"


@pytest.fixture(scope="module")
def foreign(twin: TwinTarget) -> Foreign:
    return Foreign(twin)


def described(folder: Path, **data: Any) -> description.Description:
    return description.parse(data, folder)


def tensor(name: str, size: int = 5000, dtype: str = "float16", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [size], "dtype": dtype, **more}


def program(folder: Path, text: str) -> Path:
    path = folder / "program.asc"
    path.write_text(text)
    return path


def run_program(foreign: Foreign, folder: Path, old: str = "", new: str = "", checks: Any = "normal") -> ForeignRun:
    source = (HERE / "program.asc").read_text()
    np.arange(1024, dtype=np.float32).tofile(folder / "x.bin")
    path = program(folder, changed(source, old, new) if old else source)
    return foreign.run(path, None, folder=folder, arguments=("x.bin", "y.bin"), checks=checks)


def errors(run: ForeignRun) -> list[tuple[str, int]]:
    return [(found.kind, found.line) for found in run.diagnostics if found.severity == "error"]


def test_a_program_runs_unchanged_and_writes_its_file(foreign: Foreign, tmp_path: Path) -> None:
    run = run_program(foreign, tmp_path)
    assert (run.ok, run.kind, run.kernels, run.returncode, errors(run)) == (True, "program", ("twice",), 0, [])
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.bin", np.float32), 2 * np.arange(1024, dtype=np.float32))
    assert run.duration_us is not None and run.duration_us > 3.0
    assert [f"block {k} of 4" in run.log for k in range(4)] == [True] * 4


def test_defects_of_a_program_are_named_with_their_line(foreign: Foreign, tmp_path: Path) -> None:
    text = (HERE / "program.asc").read_text()
    copy_back = line_of(text, "aclrtMemcpy(host, bytes, y")
    short = run_program(foreign, tmp_path, "DataCopy(target, b, length)", "DataCopy(target, b, length / 2)")
    assert errors(short) == [("unwritten-output", copy_back)]
    over = run_program(foreign, tmp_path, "DataCopy(a, source, length)", "DataCopy(a, source, length + 8)")
    assert ("gm-oob", line_of(text, "DataCopy(a, source")) in errors(over)
    same = run_program(foreign, tmp_path, "y + length * AscendC::GetBlockIdx()", "y")
    assert ("gm-race", line_of(text, "DataCopy(target, b")) in errors(same)


def test_what_nothing_orders_is_not_a_number_in_adversarial_mode(foreign: Foreign, tmp_path: Path) -> None:
    old = "    out.EnQue(b);\n    in.FreeTensor(a);\n    b = out.DeQue<float>();\n"
    old += "    AscendC::DataCopy(target, b, length);\n"
    new = "    AscendC::DataCopy(target, b, length);\n    in.FreeTensor(a);\n"
    want = 2 * np.arange(1024, dtype=np.float32)
    kinds = []
    for checks, right in (("normal", True), ("adversarial", False), ("off", True)):
        run = run_program(foreign, tmp_path, old, new, checks)
        kinds.append([found.kind for found in run.diagnostics])
        assert np.array_equal(np.fromfile(tmp_path / "y.bin", np.float32), want) == right
    assert kinds == [["missing-sync"], ["missing-sync"], []]


def test_host_code_is_checked_by_the_compilers_own_sanitizer(twin: TwinTarget, tmp_path: Path) -> None:
    if twin.builder.compiler.packaged:
        with pytest.raises(ToolMissing, match="the packaged compiler has no sanitizers; install g"):
            Foreign(twin, sanitize=True)
        return
    few = "    int* few = new int[4];\n    few[argc + 1] = 1;\n    volatile int kept = few[argc + 1];\n"
    checked = Foreign(twin, sanitize=True)
    assert run_program(checked, tmp_path).ok
    run = run_program(checked, tmp_path, "    float *host", few + "    float *host")
    assert (run.ok, errors(run)) == (False, [("crash", 0)])
    assert f"program.asc:{line_of((tmp_path / 'program.asc').read_text(), 'few[argc + 1] = 1')}:" in run.log
    assert run_program(Foreign(twin), tmp_path, "    float *host", few + "    float *host").ok


@pytest.mark.parametrize(("file", "kind"), [(KERNEL, "kernel"), (KERNELS / "add.asc", "candidate")])
def test_the_compilers_sanitizer_is_refused_where_it_cannot_run(twin: TwinTarget, file: Path, kind: str) -> None:
    if twin.builder.compiler.packaged:
        pytest.skip("the packaged compiler has no sanitizers")
    with pytest.raises(LaunchError, match=f"--sanitize is for programs with a main, and .* is a {kind}; leave it out"):
        Foreign(twin, sanitize=True).run(file, None)


def test_an_operator_project_runs_with_its_own_tiling_function(foreign: Foreign, tmp_path: Path) -> None:
    given = described(
        tmp_path, inputs=[tensor("x", fill="arange", size=500)], outputs=[tensor("y", size=500)], attrs={"factor": 3.0}
    )
    run = foreign.run(KERNEL, given, output=tmp_path / "out")
    assert (run.ok, run.kind, run.kernels, run.diagnostics) == (True, "kernel", ("round",), ())
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), (3 * np.arange(500)).astype(np.float16))
    assert run.launches[0]["blocks"] == 32  # 500 elements in shares of 16


def test_a_default_attribute_and_another_type_choose_another_key(foreign: Foreign, tmp_path: Path) -> None:
    given = described(tmp_path, inputs=[tensor("x", 64, "float32", fill=1.5)], outputs=[tensor("y", 64, "float32")])
    assert foreign.run(KERNEL, given, output=tmp_path).ok
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.full(64, 3.0, np.float32))


def test_given_tiling_takes_the_place_of_the_tiling_function(foreign: Foreign, tmp_path: Path) -> None:
    np.save(tmp_path / "want.npy", np.full(100, 10.0, np.float16))
    given = described(
        tmp_path,
        inputs=[tensor("x", 100, fill=2.0)],
        outputs=[tensor("y", 100, expected="want.npy")],
        tiling={"total": 100, "perCore": 100, "factor": 5.0, "extents": [1, 2]},
        tiling_key=1,
        blocks=1,
    )
    run = foreign.run(KERNEL, given)
    assert run.ok and [one.right for one in run.compared] == [True]
    wrong = foreign.run(KERNEL, described(tmp_path, **{**json_of(tmp_path), "tiling_key": 2}))
    assert errors(wrong)[0][0] == "unwritten-output"


def test_an_output_that_updates_an_input_is_the_parameter_called_ref(foreign: Foreign, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text(
        '#include "kernel_operator.h"\n'
        "using namespace AscendC;\n"
        'extern "C" __global__ __aicore__ void update(GM_ADDR var, GM_ADDR grad, GM_ADDR var_ref)\n'
        "{\n"
        "    TPipe pipe;\n"
        "    TBuf<TPosition::VECCALC> buffer;\n"
        "    pipe.InitBuffer(buffer, 512);\n"
        "    LocalTensor<half> a = buffer.Get<half>(), b = a[64];\n"
        "    GlobalTensor<half> from, step, to;\n"
        "    from.SetGlobalBuffer((__gm__ half*)var);\n"
        "    step.SetGlobalBuffer((__gm__ half*)grad);\n"
        "    to.SetGlobalBuffer((__gm__ half*)var_ref);\n"
        "    DataCopy(a, from, 64);\n"
        "    DataCopy(b, step, 64);\n"
        "    PipeBarrier<PIPE_ALL>();\n"
        "    Sub(a, a, b, 64);\n"
        "    PipeBarrier<PIPE_ALL>();\n"
        "    DataCopy(to, a, 64);\n"
        "}\n"
    )
    given = described(
        tmp_path,
        inputs=[tensor("var", 64, fill=5.0), tensor("grad", 64, fill=2.0)],
        outputs=[tensor("var", 64)],
        blocks=1,
    )
    run = foreign.run(kernel, given, output=tmp_path / "out")
    assert (run.ok, run.diagnostics) == (True, ())
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "var.npy"), np.full(64, 3.0, np.float16))


def json_of(folder: Path) -> dict[str, Any]:
    tiling = {"total": 100, "perCore": 100, "factor": 5.0}
    return {"inputs": [tensor("x", 100)], "outputs": [tensor("y", 100)], "tiling": tiling, "blocks": 1, "tiling_key": 1}


def test_check_compiles_with_the_first_types_the_operator_lists(foreign: Foreign) -> None:
    run = foreign.check(KERNEL)
    assert (run.ok, run.compiled, run.kind, run.duration_us) == (True, True, "kernel", None)


@pytest.mark.parametrize("name", ["asinh", "fmax", "div", "remainder"])
def test_a_kernel_may_be_called_like_a_function_of_the_c_library(foreign: Foreign, tmp_path: Path, name: str) -> None:
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text(
        '#include "kernel_operator.h"\n'
        "using namespace AscendC;\n"
        f'extern "C" __global__ __aicore__ void {name}(GM_ADDR x, GM_ADDR y)\n'
        "{\n"
        "    const uint32_t few = min(3, 4U) + max(int64_t(1), 2);  // device code has both by their bare names\n"
        "    GetTPipePtr()->Destroy();\n"
        "}\n"
    )
    checked = foreign.check(kernel)
    assert (checked.compiled, checked.kernels, checked.diagnostics) == (True, (name,), ())


def test_an_error_in_a_foreign_kernel_is_shown_at_its_line(foreign: Foreign, tmp_path: Path) -> None:
    shutil.copytree(HERE / "project", tmp_path / "project")
    path = tmp_path / "project" / "op_kernel" / "scale.cpp"
    path.write_text(changed(path.read_text(), "Muls(b, a, static_cast<T>", "Mulls(b, a, static_cast<T>"))
    run = foreign.check(path)
    assert not run.compiled
    assert (run.diagnostics[0].kind, run.diagnostics[0].file) == ("compile-error", "scale.cpp")
    assert run.diagnostics[0].line == line_of(path.read_text(), "Mulls")


def test_names_that_do_not_fit_are_an_error_with_the_way_out(foreign: Foreign, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="kernel round takes x, which no tensor .*it has a, b, c"):
        foreign.run(KERNEL, described(tmp_path, inputs=[tensor("a"), tensor("b")], outputs=[tensor("c")]))
    with pytest.raises(LaunchError, match="is a kernel; say what it is launched with"):
        foreign.run(KERNEL, None)
    with pytest.raises(LaunchError, match="has no field 'shapes'"):
        described(tmp_path, inputs=[{"name": "x", "shapes": [1]}])
    with pytest.raises(LaunchError, match="holds neither a __global__ kernel nor a main"):
        foreign.check(KERNEL.parent / "scale_parts.h")


def test_entries_are_found_with_templates_and_parameters() -> None:
    text = """
    template <typename T, int mode = 2>
    __global__ __aicore__ void first(GM_ADDR x, const uint32_t count) { }
    extern "C" __global__ __aicore__ void declared(GM_ADDR x);
    __global__ __vector__ void second(__gm__ half* y /* , no */) {}
    """
    found = project.entries(text)
    assert [(one.name, one.template, [part.name for part in one.parameters]) for one in found] == [
        ("first", ("typename T", "int mode = 2"), ["x", "count"]),
        ("second", (), ["y"]),
    ]
    assert [part.pointer for part in found[0].parameters] == [True, False]


def test_a_cache_reached_through_a_link_serves_as_well(twin_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(twin_cache)
    source = tmp_path / "fresh.asc"
    source.write_text((HERE / "program.asc").read_text() + f"// {tmp_path}\n")
    np.arange(1024, dtype=np.float32).tofile(tmp_path / "x.bin")
    linked = Foreign(TwinTarget(tmp_path / "link"))
    assert linked.run(source, None, folder=tmp_path, arguments=("x.bin", "y.bin")).ok
