"""A CANN Bench folder is read as it stands: lists, omitted inputs, attributes, ranges, hooks, index rules, anchors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kope.cli import app
from kope.errors import TaskError
from kope.model import Anchor, Case, CaseInput, OutputDecl, Parameter, TensorSpec, Tolerance, Values
from kope.task import find_task, list_folders, load_task
from kope.task.cann_bench import load_operator
from kope.task.imported import read_suite
from tests.documents import parsed

SUITE = Path(__file__).with_name("cann_suite")
pytestmark = pytest.mark.torch


def tensor(name: str, shape: tuple[int, ...], dtype: str, low: float, high: float, special: str = "") -> CaseInput:
    return CaseInput(TensorSpec(name, shape, dtype), Values(low, high, special))


def test_cases_keep_ids_shapes_dtypes_ranges_and_attributes() -> None:
    task = load_operator(SUITE / "tasks" / "level1" / "scaled_add")
    assert task.cases == (
        Case(
            "1",
            (tensor("x", (6, 10), "float32", -1, 1), tensor("y", (6, 10), "float32", 0, 4)),
            {"scale": 0.5, "pads": (0, 1)},
        ),
        Case("2", (tensor("x", (33,), "float16", -5, 5), None), {"scale": 3, "pads": (2, 3)}),
        Case(
            "3",
            (tensor("x", (7, 9), "bfloat16", -1, 1, "nan"), tensor("y", (7, 9), "bfloat16", -1, 1)),
            {"scale": 2.0, "pads": (0, 1)},
        ),
        Case(
            "4",
            (tensor("x", (100,), "float32", -1, 1, "inf"), tensor("y", (100,), "float32", -1, 1, "inf")),
            {"scale": -1.0, "pads": (0, 1)},
        ),
        Case(
            "5",
            (tensor("x", (3, 5), "float16", 0, 0), tensor("y", (3, 5), "float16", -90000, 90000)),
            {"scale": float("inf"), "pads": (0, 1)},
        ),
    )
    assert (task.name, task.symbol, task.framework, task.fixed_shapes) == (
        "cann_scaled_add",
        "scaled_add",
        "torch",
        True,
    )
    assert task.outputs == (OutputDecl("z", "same:x"),)
    assert task.text == "Adds y to x times a scale. Without y, the scaled x.\n"


def test_an_origin_says_where_a_task_is_from_and_what_is_published_for_it() -> None:
    origin = load_operator(SUITE / "tasks" / "level1" / "scaled_add").origin
    assert origin is not None
    assert (origin.suite, origin.version, origin.unit) == ("cann-bench", "0.1.0", "level1/scaled_add")
    assert (origin.level, origin.operator, origin.root) == ("L1", "ScaledAdd", (SUITE / "tasks").resolve())
    assert sorted(origin.files) == [f"level1/scaled_add/{name}" for name in ("cases.yaml", "golden.py", "proto.yaml")]
    assert origin.anchors == {"910b2": {"1": Anchor(10.0, 1.0), "2": Anchor(8.0, None)}}
    assert origin.parameters == (
        Parameter("x", "tensor", ("x",)),
        Parameter("y", "tensor", ("y",)),
        Parameter("scale", "attr"),
        Parameter("pads", "attr"),
    )


def test_a_list_becomes_as_many_inputs_as_its_longest_case_has() -> None:
    task = load_operator(SUITE / "tasks" / "level1" / "list_mean")
    assert task.inputs == ("x_0", "x_1", "x_2", "w_0", "w_1", "w_2")
    assert [[given and given.spec.shape for given in case.inputs] for case in task.cases] == [
        [(4, 8), (12,), None, (4, 8), (12,), None],
        [(5,), (6,), (7,), (5,), (6,), (7,)],
    ]
    first, second = task.cases
    assert [given.values for given in first.inputs if given] == [
        Values(-1, 1),
        Values(2, 3),
        Values(0, 1),
        Values(0, 1),
    ]
    assert [given.values for given in second.inputs if given] == [Values(0, 1)] * 6
    assert task.outputs == (OutputDecl("y", "same:x_0", many=True),)
    assert task.text == "The mean of every tensor of a list, in its own dtype."


def test_an_index_output_says_what_it_points_into() -> None:
    task = load_operator(SUITE / "tasks" / "level2" / "peak")
    assert task.outputs == (OutputDecl("values", "same:x"), OutputDecl("indices", "int64", "index", "x", "dim"))
    assert task.origin is not None
    assert task.origin.recipe["skipped"] == [1]
    assert task.origin.recipe["oracle"] == "peak_oracle"


def test_thresholds_of_an_operator_scale_the_tolerance() -> None:
    scaled, plain = (load_operator(SUITE / "tasks" / "level1" / name) for name in ("scaled_add", "list_mean"))
    factor = 0.001 * 2**13
    assert plain.tolerance["float32"] == Tolerance(1e-4, 1e-6)
    assert scaled.tolerance["float32"] == Tolerance(1e-4 * factor, 1e-6 * factor)
    assert scaled.tolerance["float16"] == plain.tolerance["float16"]


def test_a_suite_on_the_task_path_is_found_by_name() -> None:
    names = {"cann_list_mean": "level1", "cann_peak": "level2", "cann_pick_rows": "level2", "cann_scaled_add": "level1"}
    found = list_folders([SUITE])
    assert {name: folder.parent.name for name, folder in found.items()} == names
    by_name = find_task("cann_peak", [SUITE])
    assert by_name == find_task(SUITE / "tasks" / "level2" / "peak", [])
    assert [task.name for task in read_suite(SUITE)[1]] == [
        "cann_list_mean",
        "cann_scaled_add",
        "cann_peak",
        "cann_pick_rows",
    ]


def test_the_digest_follows_what_decides_a_verdict(tmp_path: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "suite")
    folder = tmp_path / "suite" / "tasks" / "level1" / "scaled_add"
    digest = load_operator(SUITE / "tasks" / "level1" / "scaled_add").digest
    assert load_operator(folder).digest == digest
    (folder / "desc.md").write_text("Other words.")
    (tmp_path / "suite" / "tasks" / "metadata" / "910b2.json").write_text("{}")
    assert load_operator(folder).digest == digest
    cases = folder / "cases.yaml"
    cases.write_text(cases.read_text().replace("value_range: [-5, 5]", "value_range: [-5, 6]"))
    assert load_operator(folder).digest != digest


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("cases.yaml", "cases:", "cases: [", "no YAML"),
        (
            "cases.yaml",
            "dtype: [float16, null]",
            "dtype: [float17, null]",
            r"cases\[2\].dtype: unknown dtype .float17. of x",
        ),
        (
            "cases.yaml",
            "[[33], null]",
            "[[[33], [2]], null]",
            r"cases\[2\].input_shape: entry 1 and parameter x are not both",
        ),
        (
            "cases.yaml",
            "[[33], null]",
            "[[33], null, [4]]",
            r"cases\[2\].input_shape: has 3 entries, the reference takes 2",
        ),
        ("cases.yaml", "case_id: 2", "case_id: two", r"cases\[2\].case_id: 'two' is not a whole number"),
        ("golden.py", "def scaled_add", "def other", r"no function scaled_add\(\); known: other"),
        ("golden.py", "def scaled_add(", "def scaled_add(:", "golden.py: .*restore the file"),
        ("proto.yaml", "outputs:", "results:", "outputs: missing"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_its_place(
    tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    shutil.copytree(SUITE, tmp_path / "suite")
    place = tmp_path / "suite" / "tasks" / "level1" / "scaled_add" / file
    place.write_text(place.read_text().replace(old, new, 1))
    with pytest.raises(TaskError, match=said) as caught:
        load_operator(place.parent)
    assert "\n" not in str(caught.value)
    suite, tasks, errors = read_suite(tmp_path / "suite")
    assert (suite.name, len(tasks), len(errors)) == ("cann-bench", 3, 1)


def test_a_folder_that_is_no_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no suite KOPE can read \(cann-bench"):
        read_suite(tmp_path)
    with pytest.raises(TaskError, match=r"task.toml: not found"):
        load_task(SUITE / "tasks" / "level2" / "peak")


def test_a_task_with_lists_and_infinities_is_shown_as_json() -> None:
    done = CliRunner().invoke(app, ["task", "show", str(SUITE / "tasks" / "level1" / "scaled_add"), "--json"])
    assert done.exit_code == 0, done.output
    document = parsed(done.stdout, "task_show")
    assert [case["attrs"] for case in document["cases"][3:]] == [
        {"scale": -1.0, "pads": [0, 1]},
        {"scale": "inf", "pads": [0, 1]},
    ]
