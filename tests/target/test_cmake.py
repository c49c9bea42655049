"""What a CMakeLists.txt defines is read without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.target.twin import TwinTarget
from kope.target.twin.foreign import Foreign
from kope.target.twin.foreign.cmake import definitions

TEXT = """
set(SCENARIO "2" CACHE STRING "which (1-4)")   # set(SCENARIO 9)
option(FAST "quick" OFF)
if(NOT DEFINED SIZE)
    set(SIZE 4096)
endif()
set(SIZE 1)
add_definitions(-DSCENARIO=${SCENARIO} -Wall)
add_compile_definitions(SIZE=${SIZE} PLAIN)
target_compile_definitions(demo PRIVATE FAST_MODE=${FAST} BAD=${NOWHERE} "WORDS=a b")
target_compile_options(demo PRIVATE $<$<COMPILE_LANGUAGE:ASC>:--npu-arch=dav-2201> -DTWICE=${SIZE}${SIZE})
"""


def test_macros_have_their_defaults(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(TEXT)
    assert definitions(tmp_path) == (
        "SCENARIO=2", "SIZE=4096", "PLAIN", "FAST_MODE=OFF", "WORDS=a b", "TWICE=40964096"
    )  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"\xff\xfe(", b'add_definitions(-DA="x', b"set()\nadd_definitions()"])
def test_a_file_that_says_nothing_defines_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "CMakeLists.txt").write_bytes(content)
    assert definitions(tmp_path) == ()
    assert definitions(tmp_path / "nowhere") == ()


def test_a_program_is_compiled_as_its_build_file_says_and_the_user_has_the_last_word(
    tmp_path: Path, twin_cache: Path
) -> None:
    (tmp_path / "CMakeLists.txt").write_text("add_definitions(-DSCENARIO=3)")
    program = tmp_path / "demo.asc"
    program.write_text(
        '#include "kernel_operator.h"\n'
        '#include "acl/acl.h"\n'
        'static_assert(SCENARIO == 3, "third");\n'
        "__global__ __aicore__ void k() {}\n"
        "int main() { k<<<1, nullptr, nullptr>>>(); return 0; }\n"
    )
    twin = TwinTarget(twin_cache)
    assert Foreign(twin).check(program).compiled
    found = Foreign(twin, defines=("SCENARIO=4",)).check(program).diagnostics
    assert [(one.file, one.line, one.message) for one in found] == [("demo.asc", 3, "static assertion failed: third")]
