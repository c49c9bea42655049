"""Where the includes of a foreign source lead: its own headers, and a stand-in for every path of the toolkit's layouts.

The toolkit's headers have many public names (old and new layouts, one header per API); the twin has one. A stand-in is
a file of one line below a forwarding folder, so that relative paths out of that folder work too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])[ \t]*([^>"\n]+?)[ \t]*[>"]', re.MULTILINE)

_KERNEL, _PLATFORM, _TILING, _GRAPH = (
    "kernel_operator.h",
    "kope_foreign/platform.h",
    "kope_foreign/tiling_api.h",
    "kope_foreign/gert.h",
)
_STAND_INS = (
    (r"acl/(?!acl\.h$)\w+\.h|runtime/rt\w*\.h", "acl/acl.h"),
    (r"(.*/)?platform/(platform_ascendc|platform_info\w*|soc_spec)\.h|platform_ascendc\.h", _PLATFORM),
    (r"(.*/)?template_argument\.h", "kope_foreign/op_kernel.h"),
    (r"(.*/)?tilingdata_base\.h", "kope_foreign/tiling_data.h"),
    (r"tiling/tiling_api\.h|(lib|adv_api)/.*_tiling(_intf)?\.h|.*matmul_tiling\w*\.h", _TILING),
    (
        r"(register|exe_graph|graph|opdev|error|log|aclnn|platform|external|common/op_host)/.*\.h|.*op_log\.h|ops_log\.h",
        _GRAPH,
    ),
    (r"(lib|adv_api|basic_api|impl|interface|include|kernel_tiling|utils|tikcfw|tikcpp)/.*\.h(pp)?", _KERNEL),
    (
        r"(kernel_(operator|tensor|tpipe|tquebind|common|struct|type|event|macros|utils|log|basic|vec|cube)|stub_)\w*\.h",
        _KERNEL,
    ),
)
_DEPTH = "a/b/c/d"
"""Folders below the forwarding folder that the compiler searches: room for as many `../` in an include."""


@dataclass(slots=True)
class Includes:
    """files: the source's own headers, reached through includes. stand_ins: path below the forwarding folder -> target.

    texts: further files of the folder the compiler searches, e.g. the copy of a kernel whose launches were rewritten.
    """

    files: list[Path] = field(default_factory=list)
    stand_ins: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the stand-ins below a folder; return what the compiler is to search."""
        search = folder / _DEPTH
        search.mkdir(parents=True, exist_ok=True)
        for name, target in self.stand_ins.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'#include "{target}"\n', "utf-8")
        for name, text in self.texts.items():
            (search / name).write_text(text, "utf-8", newline="")
        return search


def read_text(path: Path) -> str:
    """Read a source file; what is no UTF-8 is replaced."""
    return path.read_bytes().decode("utf-8", "replace")


def resolve(sources: Sequence[Path], folders: Sequence[Path], shipped: Sequence[Path], root: Path | None) -> Includes:
    """Follow the includes of some files.

    folders: searched after the includer's own. shipped: folders of the twin's headers. root: below it a header is
    looked for by the end of its path when it is nowhere else, as operator projects include by their installed layout.
    """
    found = Includes()
    seen: set[Path] = set()
    waiting = [path.resolve() for path in sources]
    index = _Index(root)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path not in {source.resolve() for source in sources}:
            found.files.append(path)
        for quoted, name in _names(path):
            target = _find(name, path.parent if quoted else None, folders)
            if target is None and not any((folder / name).is_file() for folder in shipped):
                target = _stand_in(name, index, found)
            if target is not None:
                waiting.append(target)
    return found


def _names(path: Path) -> Iterator[tuple[bool, str]]:
    for match in _INCLUDE.finditer(read_text(path)):
        yield match.group(1) == '"', match.group(2)


def _find(name: str, own: Path | None, folders: Sequence[Path]) -> Path | None:
    for folder in [own, *folders] if own else folders:
        assert folder is not None
        candidate = folder / name
        if candidate.is_file():
            return candidate.resolve()
    return None


def _stand_in(name: str, index: _Index, found: Includes) -> Path | None:
    """Note a stand-in for an include that leads nowhere; return the project's own file when it is one."""
    if "." not in Path(name).name:
        return None  # the C++ library
    place = os.path.normpath(f"{_DEPTH}/{name}")
    if place.startswith(".."):
        return None
    own = index.find(name)
    if own is not None:
        found.stand_ins[place] = str(own)
        return own
    for pattern, target in _STAND_INS:
        if re.fullmatch(pattern, name):
            found.stand_ins[place] = target
            break
    return None


class _Index:
    """Headers below a folder by their file name, listed when first asked."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._by_name: dict[str, list[Path]] | None = None

    def find(self, name: str) -> Path | None:
        """Return the header whose path ends like `name`, else the only one of that file name, else None.

        Of several that end alike the one with the shortest path is meant.
        """
        if self._root is None:
            return None
        if self._by_name is None:
            self._by_name = {}
            for path in sorted(self._root.rglob("*.h")) + sorted(self._root.rglob("*.hpp")):
                self._by_name.setdefault(path.name, []).append(path)
        wanted = tuple(part for part in Path(name).parts if part not in ("..", "."))
        named = self._by_name.get(wanted[-1], [])
        matches = [path for path in named if path.parts[-len(wanted) :] == wanted] or (named if len(named) == 1 else [])
        return min(matches, key=lambda path: (len(path.parts), str(path))).resolve() if matches else None
