"""Installs a stand-in toolkit: the layout of its generation, stand-in programs, the host program built for the twin."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kope import process
from kope.target.ascend import compile as compiling
from kope.target.twin import TwinTarget, symbols
from kope.target.twin.cache import BuildCache, digest

ROOT = Path(__file__).parents[3]
STANDINS = Path(__file__).parent / "standins"
TWIN = ROOT / "kope" / "target" / "twin"
ARCH = f"{platform.machine()}-linux"


@dataclass(frozen=True)
class Generation:
    """One kind of machine: toolkit version, chip, and how npu-smi shows it."""

    version: str
    soc: str
    form: str
    table_name: str
    phy_ids: bool = False
    arch: str = "dav-2201"
    cce_arch: str = "dav-c220-vec"


NEW_A3 = Generation("9.1.0", "Ascend910_9362", "asc", "Ascend910", phy_ids=True)
OLD_A2 = Generation("8.3.RC2", "Ascend910B4", "cce", "910B4")
NEW_A2 = Generation("9.0.0", "Ascend910B2", "asc", "910B2")


def host_objects(twin: TwinTarget, cache: Path) -> Path:
    """Compile KOPE's host program and the stand-in runtime, once per content; return the folder of objects."""
    builder = twin.builder
    sources = [*compiling.harness_files(), TWIN / "harness" / "answer.cpp", STANDINS / "acl.cpp"]
    headers = [STANDINS / "acl" / "acl.h", *sorted(compiling.include_folders()[1].glob("*.h"))]
    parts: list[bytes | str] = [builder.runtime_key, *(path.read_bytes() for path in (*sources, *headers))]

    def make(folder: Path) -> None:
        for path in sources:
            own = [f"-I{STANDINS}", *(f"-I{place}" for place in compiling.include_folders())]
            argv = [*builder.runtime_argv(), *own, "-c", str(path), "-o", str(folder / f"{path.stem}.o")]
            done = process.run(argv, timeout_s=300.0)
            assert done.returncode == 0, done.stderr

    return BuildCache(cache).make("standin", digest(parts)[:32], make)


@dataclass
class StandIn:
    """An installed stand-in; it can be told to fail."""

    home: Path
    generation: Generation
    orders: dict[str, dict[str, Any]] = field(default_factory=dict)

    def tell(self, program: str, **orders: Any) -> None:
        """Order a program; no orders: work again."""
        self.orders[program] = orders
        (self.home / "standin" / "told.json").write_text(json.dumps(self.orders))

    def tell_acl(self, call: str = "", code: int = 0, text: str = "") -> None:
        """Let a call of the runtime fail with a code and a text; no call: work again."""
        (self.home / "standin" / "acl.txt").write_text(f"{call} {code} {text}\n" if call else "")

    def obey_nothing(self) -> None:
        """Let everything work again."""
        self.orders.clear()
        for name in ("told.json", "acl.txt"):
            (self.home / "standin" / name).unlink(missing_ok=True)

    @property
    def inherited(self) -> dict[str, str]:
        """The environment of a user who has it installed."""
        return {"ASCEND_HOME_PATH": str(self.home), "PATH": os.environ["PATH"], "HOME": str(self.home.parent)}


def install(
    home: Path, generation: Generation, twin: TwinTarget, cache: Path, cards: tuple[str, ...] = ("OK",)
) -> StandIn:
    """Install a stand-in toolkit in an empty folder."""
    if twin.builder.compiler.packaged:
        pytest.skip("the stand-ins for CANN link with g++ or clang++")
    runtime, objects = twin.builder.runtime.folder, host_objects(twin, cache)
    new = generation.form == "asc"
    compiler = "tools/bisheng_compiler/bin" if new else "compiler/ccec_compiler/bin"
    for folder in (compiler, "bin", "lib64", "include", "standin", "compiler", f"{ARCH}/tikcpp/tikcfw/interface"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "tools" / "simulator" / generation.soc / "lib").mkdir(parents=True)
    (home / "compiler" / "version.info").write_text(f"Version={generation.version}\n")
    programs = {"bisheng": compiler, "msprof": "bin", "npu-smi": "bin"} | ({"msopprof": "bin"} if new else {})
    for name, folder in programs.items():
        script = home / folder / name
        script.write_text(f"#!{sys.executable}\n" + (STANDINS / f"{name.replace('-', '_')}.py").read_text())
        script.chmod(0o755)
    (home / "standin" / "kope").symlink_to(ROOT / "kope")  # of this checkout, whichever is installed
    for name in ("standin.py", "msopprof.py"):
        shutil.copy(STANDINS / name, home / "standin" / name)
    shutil.copy(runtime / "runtime.o", home / "standin" / "runtime.o")
    for path in objects.glob("*.o"):
        shutil.copy(path, home / "standin" / path.name)
    (home / "set_env.sh").write_text(
        f'export ASCEND_HOME_PATH="{home}"\nexport PATH="{home}/bin:{home / compiler}:$PATH"\n'
        f'export PYTHONPATH="{home}/standin"\nexport LD_LIBRARY_PATH="{home}/lib64"\nfalse\n'
    )
    (home / "standin" / "config.json").write_text(json.dumps(_config(home, generation, twin, cards)))
    return StandIn(home, generation)


def _config(home: Path, generation: Generation, twin: TwinTarget, cards: tuple[str, ...]) -> dict[str, Any]:
    place = home / "standin"
    return {
        "form": generation.form,
        "arch": generation.arch,
        "cce_arch": generation.cce_arch,
        "soc": generation.soc,
        "table_name": generation.table_name,
        "phy_ids": generation.phy_ids,
        "cards": cards,
        "compile": twin.builder.candidate_argv(),
        "objects": {path.name: str(place / f"{path.stem}.o") for path in compiling.harness_files()},
        "linker": twin.builder.compiler.argv[0],
        "runtime": [str(place / "answer.o"), str(place / "acl.o"), str(place / "runtime.o")],
        "link_flags": [f"-Wl,--wrap={name}" for name in symbols.WRAPPED],
    }
