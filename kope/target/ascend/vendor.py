"""Everything KOPE takes for granted about CANN, in one place: places, options, codes, phrases, numbers of chips.

None of it was ever run on hardware. It comes from the vendor's documentation and published tool sources, from public
reports, or is inferred; `ASSUMPTIONS` says which, and `kope doctor --selftest` confirms or refutes them one by one.
Tables only; how they are used is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Basis = Literal["documented", "reported", "inferred"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A claim about the vendor's interface. basis: printed by the vendor, seen in public reports, or a conclusion."""

    key: str
    claim: str
    basis: Basis


ASSUMPTIONS = (
    Assumption("environment", "sourcing set_env.sh sets ASCEND_HOME_PATH, PATH and LD_LIBRARY_PATH", "documented"),
    Assumption("version", "version.info or ascend_toolkit_install.info in the toolkit names its version", "documented"),
    Assumption("form", "from version 8.5 on the compiler takes .asc sources and --npu-arch", "documented"),
    Assumption("cce-form", "older versions take -xcce, --cce-aicore-arch and link with --cce-fatobj-link", "reported"),
    Assumption("cards", "`npu-smi info` prints a table of NPU, name, health, chip and bus id", "reported"),
    Assumption("soc", "Ascend plus the name in that table is the SoC name (910B2 -> Ascend910B2)", "reported"),
    Assumption("compile", "an object of the candidate and the host program link to one executable", "documented"),
    Assumption(
        "acl", "the acl calls of the host program exist under these names and behave as described", "documented"
    ),
    Assumption("sync-code", "a kernel that failed shows in the return code of aclrtSynchronizeStream", "documented"),
    Assumption("confined", "the driver works in namespaces of its own with the NPU's device nodes shown", "inferred"),
    Assumption("visible", "ASCEND_RT_VISIBLE_DEVICES renumbers the cards it lists from 0 on", "documented"),
    Assumption(
        "msprof", "msprof runs a program and writes op_summary_*.csv, a row per kernel, in text mode", "documented"
    ),
    Assumption(
        "host-clock", "Task Start Time(us) in op_summary is the host's clock in microseconds of Unix time", "reported"
    ),
    Assumption("msopprof", "msopprof (or msprof op) writes an OPPROF_* tree of one folder per launch", "documented"),
    Assumption("launch-order", "launches of one kernel name are numbered in the order they ran", "inferred"),
    Assumption("cold", "msopprof clears the L2 cache before each replay of a kernel", "documented"),
    Assumption(
        "simulator", "programs linked with --run-mode=sim run without a card under msopprof simulator", "documented"
    ),
    Assumption("trace", "the simulator's trace.json holds events with ts and dur in microseconds", "inferred"),
)

# --- places ---------------------------------------------------------------------------------------------------------

HOME = "ASCEND_HOME_PATH"
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
INHERITED = (HOME, VISIBLE, "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME")
"""What is read from the environment KOPE runs in."""
TOOLKIT_VARIABLES = (
    HOME, "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "TOOLCHAIN_HOME", "PATH", "LD_LIBRARY_PATH",
    "PYTHONPATH",
)  # fmt: skip
"""What set_env.sh sets; nothing else of it is handed on."""
INSTALL_PLACES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "~/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
)
DRIVER_PLACES = (
    "/usr/local/Ascend/driver", "/usr/local/dcmi", "/etc/ascend_install.info", "/etc/hccn.conf",
    "/sys/bus", "/sys/class", "/sys/devices",
)  # fmt: skip
"""What the driver's libraries read besides the system's own folders."""
SHARED_DEVICES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
CARD_DEVICE = "/dev/davinci{card}"
COMPILER_PLACES = (
    "{arch}-linux/ccec_compiler/bin",
    "tools/bisheng_compiler/bin",
    "tools/ccec_compiler/bin",
    "compiler/ccec_compiler/bin",
    "bin",
)
VERSION_FILES = ("{arch}-linux/ascend_toolkit_install.info", "compiler/version.info", "version.info")
PLATFORM_FILE = "{arch}-linux/data/platform_config/{soc}.ini"
SIMULATOR_PLACES = ("tools/simulator/{soc}/lib", "tools/simulator/{arch}/lib")
FIRST_ASC_VERSION = (8, 5)

# --- compiling ------------------------------------------------------------------------------------------------------

ASC_FLAGS = ("-std=c++17", "-O2")
CCE_FLAGS = (
    "-std=c++17", "-O2",
    "-D__vector__=__aicore__",  # an attribute that the older compilers do not know
    "-mllvm", "-cce-aicore-stack-size=0x8000",
    "-mllvm", "-cce-aicore-function-stack-size=0x8000",
    "-mllvm", "-cce-aicore-record-overflow=true",
    "-mllvm", "-cce-aicore-addr-transform",
    "-mllvm", "-cce-aicore-dcci-insert-for-scalar=false",
)  # fmt: skip
CCE_INCLUDES = ("{arch}-linux/tikcpp/tikcfw", "compiler/tikcpp/tikcfw")
CCE_INCLUDE_PARTS = ("", "interface", "impl")
CCE_ARCH = {"dav-2201": "dav-c220-vec", "dav-3510": "dav-c310-vec", "dav-2002": "dav-m200", "dav-1001": "dav-c100"}
CCE_MACRO = {"dav-2201": "MEMORY_BASE", "dav-3510": "REGISTER_BASE"}
CCE_LIBRARIES = ("-lascendcl", "-lruntime", "-lstdc++")

# --- chips ----------------------------------------------------------------------------------------------------------

ARCHITECTURES = (
    (r"Ascend910B[1-4]", "dav-2201"),
    (r"Ascend910_93", "dav-2201"),
    (r"Ascend950", "dav-3510"),
    (r"Ascend310P", "dav-2002"),
    (r"Ascend310B", "dav-3002"),
    (r"Ascend910(A|Pro|$)", "dav-1001"),
)
"""SoC name -> what --npu-arch takes, the first that matches."""


@dataclass(frozen=True, slots=True)
class ChipNumbers:
    """Published figures of a chip; 0 where none was found.

    Of variants with one name it is the fastest memory and the largest cache: what stands on these figures is the time
    that no kernel can beat, and that must not refuse a right one. The twin's parameter sets hold the usual variant.
    """

    vector_cores: int
    cube_cores: int
    clock_mhz: float = 0.0
    gm_gbps: float = 0.0
    l2_gbps: float = 0.0
    l2_bytes: int = 0


CHIPS = (
    (r"Ascend910B1", ChipNumbers(48, 24, 1850, 1800, 8000, 192 << 20)),
    (r"Ascend910B2", ChipNumbers(48, 24, 1800, 1750, 7780, 192 << 20)),
    (r"Ascend910B3", ChipNumbers(40, 20, 1800, 1750, 7780, 192 << 20)),
    (r"Ascend910B4", ChipNumbers(40, 20, 1650, 1250, 6300, 168 << 20)),
    (r"Ascend910_939", ChipNumbers(50, 25, 0, 0, 0, 168 << 20)),
    (r"Ascend910_938", ChipNumbers(48, 24, 0, 0, 0, 168 << 20)),
    (r"Ascend910_93", ChipNumbers(40, 20, 0, 0, 0, 168 << 20)),
    (r"Ascend950(PR|DT)_959", ChipNumbers(72, 36, 1650)),
    (r"Ascend950(PR|DT)_958", ChipNumbers(64, 32)),
    (r"Ascend950(PR|DT)_957", ChipNumbers(56, 28)),
)
UB_BYTES = {"dav-2201": 196608, "dav-3510": 262144}
UB_RESERVED_BYTES = {"dav-2201": 8448, "dav-3510": 8192}
"""What the toolkit keeps of the unified buffer by default."""

# --- programs -------------------------------------------------------------------------------------------------------

MSPROF_OPTIONS = (
    "--ascendcl=on", "--task-time=on", "--ai-core=on", "--aic-mode=task-based", "--aic-metrics=PipeUtilization",
    "--type=text", "--summary-format=csv",
)  # fmt: skip
MSPROF_DONE = "Process profiling data complete"
MSOPPROF_MAX_LAUNCHES = 5000
MSOPPROF_WARM_UP = 5
NOTHING_RAN = (
    "Profiling results are empty",
    "No kernel profiling data was generated",
    "No profiling data matched",
    "No profiling data dumped",
)
"""What msopprof says when there was no kernel to look at."""
PROFILER_FAILED = ("Running task failed", "Get profiling data failed", "Profiling data parse failed")

BAD_HEALTH = ("ALARM", "CRITICAL", "WARNING", "ABNORMAL", "FAULT", "ERROR")
"""A card with one of these words is not used; one with a word nobody knows is."""

# --- what goes wrong on the device ----------------------------------------------------------------------------------

Blame = Literal["kernel", "hang", "environment", "hardware", "unknown"]
"""kernel and hang are the candidate's; environment and hardware never count against it; unknown: look at the text."""

ACL_CODES: Mapping[int, tuple[str, Blame, str]] = {
    107001: ("no-device", "environment", "invalid device id: no NPU is visible"),
    107002: ("host-error", "environment", "the context is null"),
    207001: ("device-memory", "environment", "device memory allocation failed"),
    507000: ("runtime-error", "unknown", "internal error of the runtime"),
    507001: ("runtime-error", "unknown", "internal error of the task scheduler"),
    507008: ("no-device", "environment", "the SoC version cannot be read"),
    507010: ("device-lost", "hardware", "the task scheduler lost its heartbeat"),
    507011: ("runtime-error", "unknown", "execution failed"),
    507012: ("device-lost", "hardware", "report timeout"),
    507013: ("device-lost", "hardware", "system DMA error"),
    507014: ("device-timeout", "hang", "AI core timeout"),
    507015: ("device-exception", "kernel", "AI core exception"),
    507016: ("trap", "kernel", "AI core trap"),
    507017: ("device-timeout", "hang", "AI CPU timeout"),
    507018: ("device-exception", "kernel", "AI CPU exception"),
    507033: ("no-device", "environment", "device setup error"),
    507034: ("device-timeout", "hang", "vector core timeout"),
    507035: ("device-exception", "kernel", "vector core exception"),
    507036: ("trap", "kernel", "vector core trap"),
    507042: ("gm-oob", "kernel", "AI core trap: read out of range"),
    507043: ("gm-oob", "kernel", "AI core trap: write out of range"),
    507044: ("gm-oob", "kernel", "vector core trap: read out of range"),
    507045: ("gm-oob", "kernel", "vector core trap: write out of range"),
    507046: ("device-timeout", "hang", "stream synchronisation timeout"),
    507047: ("device-timeout", "hang", "event synchronisation timeout"),
    507048: ("device-timeout", "hang", "mixed kernel timeout"),
    507049: ("device-exception", "kernel", "mixed kernel exception"),
    507050: ("trap", "kernel", "mixed kernel trap"),
    507053: ("hardware-fault", "hardware", "uncorrectable memory error of the device"),
    507054: ("hardware-fault", "hardware", "ECC error of the device memory"),
    507055: ("hardware-fault", "hardware", "link error of the device"),
    507056: ("hardware-fault", "hardware", "link error of the device"),
    507057: ("hardware-fault", "hardware", "link error of the device"),
    507899: ("driver-error", "environment", "internal error of the driver"),
}
"""Return code of an acl call -> kind, whose fault it is, meaning."""

SCHEDULER_CODES: Mapping[int, tuple[str, Blame, str]] = {
    0x25: ("device-timeout", "hang", "AI core timeout"),
    0x26: ("device-exception", "kernel", "AI core exception"),
    0x30: ("device-timeout", "hang", "vector core timeout"),
    0x31: ("device-exception", "kernel", "vector core exception"),
}
"""retCode of the task scheduler, in the runtime's text."""

PHRASES: tuple[tuple[str, str, Blame], ...] = (
    (r"\bECC\b|RAS alarm|parity", "hardware-fault", "hardware"),
    (
        r"operation address of L0[ABC] exceeds|load2d|load3d|FIXP to (read L0C|write L1).*out of bounds",
        "l0-oob",
        "kernel",
    ),
    (
        r"ub address out of bounds|(read|write|read/write) UB is out of bounds|address of the UB is out of range",
        "ub-oob",
        "kernel",
    ),
    (r"not aligned|unaligned UUB addresses", "align", "kernel"),
    (
        r"DDR address of the MTE instruction is out of range|accesses an invalid GM address|exceeds 48 bits",
        "gm-oob",
        "kernel",
    ),
    (r"read/write conflict|confilicts?", "missing-sync", "kernel"),
    (r"flag counter for inter-core communication exceeds|HSET counter", "flag-overflow", "kernel"),
    (
        r"division by (0|zero)|inf or nan|ln is a negative|square root is a negative",
        "numeric-trap",
        "kernel",
    ),
    (r"AIcore reads instructions|depth of nested function call", "stack-overflow", "kernel"),
    (
        r"instruction parameter is invalid|burst length .* incorrect|burst num|MASK instruction is all 0"
        r"|configuration .* illegal|instruction is abnormal|not defined in ISA",
        "argument-range",
        "kernel",
    ),
    (r"timeout", "device-timeout", "hang"),
)
"""Pattern in an errorStr -> kind and whose fault it is; the first that matches."""

REMEDIES: Mapping[str, str] = {
    "ub-oob": "compare tensor sizes and counts with what InitBuffer gave; look at the tail",
    "gm-oob": "check offsets and counts at the end of each core's share; look at the tail",
    "l0-oob": "compare tile sizes with the L0 and L1 buffers of the chip",
    "align": "align UB addresses and DataCopy sizes to 32 bytes; DataCopyPad copies any length",
    "missing-sync": "order the two pipes by a queue, SetFlag/WaitFlag or PipeBarrier",
    "flag-overflow": "let the other core wait at least every 15 sets of a flag",
    "numeric-trap": "guard divisions, logarithms and roots",
    "stack-overflow": "reduce nesting and local arrays in device code",
    "argument-range": "check burst counts, lengths, strides and masks against the limits of the instruction",
    "trap": "look for a failed assertion in the kernel",
    "device-timeout": "look for a wait on a flag or queue that nothing sets, or a SyncAll with more blocks than cores",
    "device-exception": "run the kernel on the twin (--target twin): it names the line",
    "no-device": "check `npu-smi info`, the device nodes and ASCEND_RT_VISIBLE_DEVICES; then `kope doctor`",
    "device-memory": "free the card's memory (`npu-smi info` shows who uses it) and run again",
    "device-lost": "reset the card (npu-smi set -t reset -i ID) or use another with ASCEND_RT_VISIBLE_DEVICES",
    "hardware-fault": "take the card out with ASCEND_RT_VISIBLE_DEVICES and have it checked",
    "driver-error": "check that driver and toolkit versions fit each other; then run again",
    "host-error": "report it with the file that `kope doctor --selftest` writes",
    "runtime-error": "look at the log; if it repeats with a kernel known to be good, reset the card",
}
