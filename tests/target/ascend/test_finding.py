"""Finding the toolkit, its version, the chip and the cards."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from kope.errors import ConfigError, MachineError, ToolMissing
from kope.target.ascend import chip as chips
from kope.target.ascend import toolkit
from kope.target.ascend.cards import Card, read_chip_name, read_info, visible
from kope.target.ascend.host import LocalHost
from kope.target.ascend.target import platform_text

A2 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.1                   Version: 24.1.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B4               | OK            | 88.2        30                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          26838/ 32768         |
+===========================+===============+====================================================+
| 3     910B4               | Alarm         | 90.0        31                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3197 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4711          | python                   | 120                     |
"""
A3 = """\
| npu-smi 25.2.0  Version: 25.2.0 |
| NPU   Name      | Health   | Power(W)  Temp(C)  Hugepages-Usage(page) |
| Chip  Phy-ID    | Bus-Id   | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |
| 0     Ascend910 | OK       | 170.1     37       0 / 0                 |
| 0     0         | 0000:9D:00.0 | 0     0 / 0   3122 / 65536            |
| 0     Ascend910 | OK       | -         38       0 / 0                 |
| 1     1         | 0000:9F:00.0 | 0     0 / 0   2886 / 65536            |
| 1     Ascend910 | WEIRD    | 171.0     36       0 / 0                 |
| 0     2         | 0000:99:00.0 | 0     0 / 0   3110 / 65536            |
| No running processes found in NPU 0 | | |
"""


def test_cards_are_read_from_the_table_of_an_a2() -> None:
    report = read_info(A2)
    assert report.driver == "24.1.1"
    assert report.cards == (
        Card(0, 0, 0, "910B4", "OK", "0000:C1:00.0"),
        Card(1, 3, 0, "910B4", "Alarm", "0000:C2:00.0"),
    )
    assert [card.healthy for card in report.cards] == [True, False]


def test_cards_are_read_from_the_table_of_an_a3_with_two_chips_each() -> None:
    cards = read_info(A3).cards
    assert [(card.id, card.npu, card.chip) for card in cards] == [(0, 0, 0), (1, 0, 1), (2, 1, 0)]
    assert [card.healthy for card in cards] == [True, True, True]  # a word nobody knows is no reason to refuse


def test_text_that_is_no_table_has_no_cards() -> None:
    assert read_info("npu-smi: command failed\n").cards == ()


def test_the_environment_chooses_among_the_cards() -> None:
    cards = read_info(A3).cards
    assert [card.id for card in visible(cards, {"ASCEND_RT_VISIBLE_DEVICES": "2,0"})] == [2, 0]
    assert visible(cards, {}) == cards
    for wrong in ("7", "a", "0,,1"):
        with pytest.raises(MachineError, match="names no card of this machine"):
            visible(cards, {"ASCEND_RT_VISIBLE_DEVICES": wrong})


def test_the_board_page_names_the_chip() -> None:
    assert read_chip_name("  Chip Name : Ascend910\n  NPU Name : 9362\n") == "Ascend910_9362"
    assert read_chip_name("  Chip Name : 910B2\n  NPU Name : NA\n") == "910B2"
    assert read_chip_name("nothing") == ""


@pytest.mark.parametrize(
    ("name", "soc", "arch", "cores"),
    [
        ("910b2", "Ascend910B2", "dav-2201", 48),
        ("910B4", "Ascend910B4", "dav-2201", 40),
        ("Ascend910B4-1", "Ascend910B4-1", "dav-2201", 40),
        ("Ascend910_9362", "Ascend910_9362", "dav-2201", 40),
        ("Ascend950PR_9589", "Ascend950PR_9589", "dav-3510", 64),
    ],
)
def test_chips_by_any_spelling(name: str, soc: str, arch: str, cores: int) -> None:
    found = chips.describe(chips.soc_name(name))
    assert (found.soc, found.arch, found.vector_cores) == (soc, arch, cores)


def test_a_chip_nobody_has_told_of_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match="does not know the architecture of Ascend1234"):
        chips.describe("Ascend1234")
    with pytest.raises(ConfigError, match="no core count of Ascend310P3"):
        chips.describe("Ascend310P3")


def test_the_platform_file_goes_before_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "aarch64-linux" / "data" / "platform_config"
    folder.mkdir(parents=True)
    (folder / "Ascend910B2.ini").write_text(
        "[SoCInfo]\nai_core_cnt=24\ncube_core_cnt=23\nvector_core_cnt=46\nl2_size=100663296\n"
        "[AICoreSpec]\nub_size=196608\ncube_freq=1800\n[Odd]\nflag\n"
    )
    there = toolkit.Toolkit(tmp_path, "test", "9.0.0", processor="aarch64")
    found = chips.describe("Ascend910B2", platform_text(there, "Ascend910B2", LocalHost()))
    assert (found.vector_cores, found.cube_cores, found.l2_bytes, found.ub_kernel_bytes, found.origin) == (
        46, 23, 100663296, 188160, "platform file",
    )  # fmt: skip
    assert platform_text(there, "Ascend910B1", LocalHost()) == ""
    assert chips.describe("Ascend910B1", "[SoCInfo\ncut off").origin == "published table"


def test_the_bound_takes_the_faster_path_and_is_none_where_nothing_is_published() -> None:
    chip = chips.describe("Ascend910B2")
    assert chip.bound_us(1 << 20, 1 << 19) == pytest.approx((1 << 20) / 7.78e6)
    assert chip.bound_us(1 << 30, 1 << 20) == pytest.approx((1 << 30) / 1.75e6)
    assert chips.describe("Ascend910_9362").bound_us(1 << 20, 0) is None


def make_toolkit(home: Path, version: str = "9.1.0", script: str | None = None) -> Path:
    (home / "compiler").mkdir(parents=True)
    (home / "compiler" / "version.info").write_text(f"# made\nVersion={version}\nversion_dir=x\n")
    if script is not None:
        (home / "set_env.sh").write_text(script)
    return home


def test_the_environment_names_the_toolkit(tmp_path: Path) -> None:
    home = make_toolkit(tmp_path / "cann", script='export ASCEND_HOME_PATH="$HOME/cann" OTHER=1 PATH="/x:$PATH"\n')
    found = toolkit.find(None, {"ASCEND_HOME_PATH": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert (found.home, found.origin, found.version, found.form, found.problem) == (
        home, "ASCEND_HOME_PATH", "9.1.0", "asc", "",
    )  # fmt: skip
    assert found.environment == {"ASCEND_HOME_PATH": str(home), "PATH": "/x:/usr/bin:/bin"}


def test_an_installed_toolkit_is_found_without_any_variable(tmp_path: Path) -> None:
    home = make_toolkit(tmp_path / "Ascend" / "cann")
    found = toolkit.find(None, {"HOME": str(tmp_path), "PATH": "/usr/bin"}, places=("/not/there", "~/Ascend/cann"))
    assert (found.home, found.origin) == (home, "installed")
    assert "no set_env.sh" in found.problem
    assert found.environment["ASCEND_HOME_PATH"] == str(home)


@pytest.mark.parametrize(
    "script", ["exit 3\n", "set -e\nfalse\nexport ASCEND_HOME_PATH=/x\n", "export ASCEND_HOME_PATH=/nope\n"]
)
def test_a_set_env_that_dies_half_way_is_replaced_by_hand(tmp_path: Path, script: str) -> None:
    home = make_toolkit(tmp_path / "cann", script=script)
    found = toolkit.find(home, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert "did not set ASCEND_HOME_PATH" in found.problem
    assert found.environment["ASCEND_HOME_PATH"] == str(home)


@pytest.mark.parametrize(
    ("version", "form"), [("8.3.RC2", "cce"), ("8.2.0", "cce"), ("8.5.0", "asc"), ("9.1.0-beta.2", "asc")]
)
def test_the_version_decides_how_the_compiler_is_called(tmp_path: Path, version: str, form: str) -> None:
    found = toolkit.find(make_toolkit(tmp_path / "cann", version), {"PATH": "/usr/bin"})
    assert (found.version, found.form) == (version, form)


def test_the_other_version_file_is_read_too(tmp_path: Path) -> None:
    folder = tmp_path / f"{platform.machine()}-linux"
    folder.mkdir()
    (folder / "ascend_toolkit_install.info").write_text("package_name=x\nversion=8.1.RC1\ninnerversion=V1\n")
    assert toolkit.read_version(tmp_path) == "8.1.RC1"
    assert toolkit.Toolkit(tmp_path, "test", "").form == "asc"


def test_what_is_not_there_is_one_line_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="CANN was not found .*install CANN, or set ASCEND_HOME_PATH"):
        toolkit.find(None, {"HOME": str(tmp_path)}, places=("~/Ascend/cann",))
    with pytest.raises(ToolMissing, match="ascend_home names .*which is no folder"):
        toolkit.find(tmp_path / "nothing", {})
    with pytest.raises(ToolMissing, match="bisheng is not in"):
        _ = toolkit.find(make_toolkit(tmp_path / "cann"), {"PATH": str(tmp_path)}).compiler
