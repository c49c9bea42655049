"""Source lines out of executables, for both versions of the line table."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kope import process
from kope.target.twin.compiler import find_compiler
from kope.target.twin.debugline import line_of

SOURCE = """\
#include <cstdio>
int f(int a)
{
    int b = a * 3;
    volatile int* p = &b;
    *p = a / (a - 2);
    return *p;
}
int main(int count, char**)
{
    std::printf("%p %p\\n", reinterpret_cast<void*>(&f), reinterpret_cast<void*>(&main));
    return f(count);
}
"""


@pytest.fixture(params=["-gdwarf-4", "-gdwarf-5"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "candidate.asc").write_text(SOURCE, "utf-8")
    compiler = [*find_compiler().argv, "-std=c++17", "-O0", "-g1", request.param, "-no-pie"]
    done = process.run([*compiler, "-x", "c++", "candidate.asc", "-o", "program"], cwd=tmp_path, timeout_s=120)
    assert done.returncode == 0, done.stderr
    return tmp_path / "program"


def test_functions_are_found_at_their_lines(program: Path) -> None:
    shown = process.run([str(program)], timeout_s=20).stdout
    first, second = (int(word, 16) for word in re.findall(r"0x[0-9a-f]+", shown))
    assert line_of(program, first, "candidate.asc") in (2, 3)
    assert line_of(program, second, "candidate.asc") in (9, 10)
    lines = [line_of(program, address, "candidate.asc") for address in range(first, second)]
    assert {2, 4, 5, 6, 7} <= {*lines, 2} and sorted(set(lines) - {0}) == [
        line for line in range(2, 9) if line in lines
    ]
    assert line_of(program, first, "other.asc") == 0
    assert line_of(program, 1, "candidate.asc") == 0


def test_lines_agree_with_binutils(program: Path) -> None:
    tool = shutil.which("addr2line")
    if tool is None:
        pytest.skip("addr2line is not installed")
    shown = process.run([str(program)], timeout_s=20).stdout
    first, second = (int(word, 16) for word in re.findall(r"0x[0-9a-f]+", shown))
    addresses = list(range(first, second))
    done = process.run([tool, "-e", str(program), *map(hex, addresses)], timeout_s=60)
    theirs = [
        int(found) if (found := line.rsplit(":", 1)[1].split()[0]) != "?" else 0 for line in done.stdout.splitlines()
    ]
    assert [line_of(program, address, "candidate.asc") for address in addresses] == theirs


def test_anything_else_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\x02\x01" + b"\0" * 30)
    assert line_of(tmp_path / "x", 0, "candidate.asc") == 0
    assert line_of(tmp_path / "missing", 0, "candidate.asc") == 0
    assert line_of(Path("/bin/true"), 0x1000, "candidate.asc") == 0
