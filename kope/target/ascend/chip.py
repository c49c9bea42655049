"""What chip a kernel runs on: its architecture for the compiler, cores and unified buffer for tiling, its bandwidth.

From the toolkit's own platform file where there is one, else from the published table. Which card has it: `cards`.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kope.errors import ConfigError
from kope.target.ascend import vendor


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. soc: SoC name. arch: what --npu-arch takes. gm_gbps, l2_gbps, l2_bytes: 0 where nothing is published.

    origin: where the core counts come from.
    """

    soc: str
    arch: str
    vector_cores: int
    cube_cores: int
    ub_kernel_bytes: int
    clock_mhz: float
    gm_gbps: float
    l2_gbps: float
    l2_bytes: int
    origin: str

    def bound_us(self, read_bytes: int, written_bytes: int) -> float | None:
        """Return the least time moving these bytes takes; None where no bandwidth is published.

        Reading and writing overlap, and what fits into the L2 cache may come from there: the bound is one that no
        honest kernel can go below, so it takes the faster path and no launch cost.
        """
        moved = max(read_bytes, written_bytes)
        rate = self.l2_gbps if read_bytes + written_bytes <= self.l2_bytes else self.gm_gbps
        return moved / (rate * 1e3) if rate else None


def soc_name(name: str) -> str:
    """Return the SoC name of a chip however it is written: 910b2, 910B2, Ascend910B2."""
    bare = re.sub(r"^ascend[ _-]*", "", name.strip(), flags=re.IGNORECASE)
    bare = re.sub(r"^(\d+)([a-z]+)", lambda found: found[1] + found[2].upper(), bare)
    return f"Ascend{bare}"


def architecture(soc: str) -> str:
    """Return what --npu-arch takes for a SoC. Raises ConfigError for one nobody has told KOPE of."""
    for pattern, arch in vendor.ARCHITECTURES:
        if re.match(pattern, soc):
            return arch
    raise ConfigError(f"KOPE does not know the architecture of {soc}; choose another card or set chip")


def describe(soc: str, platform_text: str = "") -> Chip:
    """Return a chip by SoC name. platform_text: what the toolkit's platform file of it says, "" where it has none.

    Raises ConfigError for one that is unknown and that no platform file describes.
    """
    arch = architecture(soc)
    known = next((numbers for pattern, numbers in vendor.CHIPS if re.match(pattern, soc)), None)
    listed = platform_numbers(platform_text)
    if known is None and "vector_core_cnt" not in listed:
        raise ConfigError(f"KOPE knows no core count of {soc}, and the toolkit has no platform file of it; set chip")
    numbers = known or vendor.ChipNumbers(0, 0)
    ub_bytes = int(listed.get("ub_size", vendor.UB_BYTES.get(arch, 196608)))
    found = Chip(
        soc=soc,
        arch=arch,
        vector_cores=numbers.vector_cores,
        cube_cores=numbers.cube_cores,
        ub_kernel_bytes=ub_bytes - vendor.UB_RESERVED_BYTES.get(arch, 8448),
        clock_mhz=numbers.clock_mhz,
        gm_gbps=numbers.gm_gbps,
        l2_gbps=numbers.l2_gbps,
        l2_bytes=numbers.l2_bytes,
        origin="published table",
    )
    if "vector_core_cnt" not in listed:
        return found
    return replace(
        found,
        vector_cores=int(listed["vector_core_cnt"]),
        cube_cores=int(listed.get("cube_core_cnt", listed.get("ai_core_cnt", numbers.cube_cores))),
        l2_bytes=int(listed.get("l2_size", numbers.l2_bytes)),
        origin="platform file",
    )


def platform_numbers(text: str) -> Mapping[str, float]:
    """Return the numbers in the text of a platform file, by key; {} when it cannot be read."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    numbers = {}
    for section in ("SoCInfo", "AICoreSpec"):
        for key, value in parser.items(section) if parser.has_section(section) else ():
            if value is not None and re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
                numbers[key] = float(value)
    return numbers
