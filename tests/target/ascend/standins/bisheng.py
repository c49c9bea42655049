"""Stands in for bisheng: takes the documented argv of its generation, compiles with the host compiler for the twin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import standin

from kope.target.twin.launches import rewrite_launches

CCE_PLAIN = ("-std=c++17", "-O2", "-fPIC", "-D__vector__=__aicore__", "-DMEMORY_BASE")
BACK_END = (
    "-cce-aicore-stack-size=0x8000",
    "-cce-aicore-function-stack-size=0x8000",
    "-cce-aicore-record-overflow=true",
    "-cce-aicore-addr-transform",
    "-cce-aicore-dcci-insert-for-scalar=false",
)


def main(arguments: list[str]) -> int:
    """Compile, link, or say the version."""
    config = standin.config()
    if arguments == ["--version"]:
        print("2026-01-01T00:00:00+08:00 clang version 15.0.5 (clang-0123456789ab flang-0123456789ab)")
        print("Target: x86_64-unknown-linux-gnu\nThread model: posix")
        return 0
    standin.obey("bisheng")
    return new_form(arguments, config) if config["form"] == "asc" else old_form(arguments, config)


def new_form(arguments: list[str], config: dict[str, Any]) -> int:
    """Objects with -c; executables and shared libraries of sources and objects; always --npu-arch."""
    output, sources, objects, flags, arch = "a.out", [], [], set(), ""
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "-o":
            output = rest.pop(0)
        elif word.startswith("--npu-arch="):
            arch = word.partition("=")[2]
        elif word in ("-shared", "-c", "--run-mode=sim", "-std=c++17", "-O2", "-fPIC") or word.startswith("-I"):
            flags.add(word)
        elif word.endswith((".cpp", ".asc")):
            sources.append(word)
        elif word.endswith(".o"):
            objects.append(word)
        else:
            standin.refuse("bisheng", f"unknown argument: '{word}'")
    if arch != config["arch"]:
        standin.refuse("bisheng", f"invalid value '{arch}' in '--npu-arch='")
    for candidate in [name for name in sources if name.endswith(".asc")]:
        made = output if "-c" in flags else "standin-candidate.o"
        if status := compile_candidate(candidate, made, config):
            return status
        objects.append(made)
    if "-c" in flags:
        return 0
    hosts = host_objects([name for name in sources if name.endswith(".cpp")], config)
    return link([*objects, *hosts], output, config, shared="-shared" in flags)


def old_form(arguments: list[str], config: dict[str, Any]) -> int:
    """Objects first, with -xcce for device code; then --cce-fatobj-link."""
    rest, flags, inputs, output = list(arguments), set(), [], "a.out"
    while rest:
        word = rest.pop(0)
        if word == "-o":
            output = rest.pop(0)
        elif word == "-mllvm":
            if rest[0] not in BACK_END:
                standin.refuse("bisheng", f"unknown back-end option {rest[0]}")
            rest.pop(0)
        elif word in (*CCE_PLAIN, "-xcce", "-c", "--cce-fatobj-link", "-shared") or word.startswith(("-I", "-L", "-l")):
            flags.add(word)
        elif word.startswith("--cce-aicore-arch="):
            if word.partition("=")[2] != config["cce_arch"]:
                standin.refuse("bisheng", f"unsupported {word}")
            flags.add("device")
        elif word.startswith("-"):
            standin.refuse("bisheng", f"unknown argument: '{word}'")
        else:
            inputs.append(word)
    if "-c" in flags and "device" in flags:
        if not {"-xcce", "-D__vector__=__aicore__"} <= flags:
            standin.refuse("bisheng", "use of undeclared identifier '__vector__'")
        return compile_candidate(inputs[0], output, config)
    if "-c" in flags:
        (made,) = host_objects(inputs, config)
        Path(output).write_bytes(Path(made).read_bytes())
        return 0
    if "--cce-fatobj-link" not in flags or ("-shared" not in flags and "-lascendcl" not in flags):
        standin.refuse("bisheng", "undefined reference to `aclInit'")
    return link(inputs, output, config, shared="-shared" in flags)


def compile_candidate(source: str, output: str, config: dict[str, Any]) -> int:
    """Compile device and host code of a candidate as the twin does."""
    work = Path("standin-build")
    work.mkdir(exist_ok=True)
    (work / "candidate.asc").write_text(rewrite_launches(Path(source).read_text("utf-8")), "utf-8")
    done = subprocess.run([*config["compile"], "-fPIC", "-o", str(Path(output).absolute())], cwd=work, check=False)
    return done.returncode


def host_objects(sources: list[str], config: dict[str, Any]) -> list[str]:
    """Return the objects of the host program, compiled when the stand-in was installed."""
    return [config["objects"][Path(name).name] for name in sources]


def link(objects: list[str], output: str, config: dict[str, Any], *, shared: bool) -> int:
    """Link with the stand-in runtime; a shared library is linked without it, as the real one is."""
    if shared:
        return subprocess.run([config["linker"], "-shared", *objects, "-o", output], check=False).returncode
    argv = [config["linker"], *objects, *config["runtime"], *config["link_flags"], "-o", output]
    return subprocess.run(argv, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
