"""Candidates that public harnesses of this field have been fooled with, on operators where they would pay.

Each names the check that stops it (kope/evaluate/checks.py) and the kinds of finding that may say so.
"""

# ruff: noqa: E501 - a snippet of C++ reads best on its own line
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kope.evaluate.inputs import draw
from kope.model import CaseInput, TensorSpec, Values

from .kernels import (
    COPY,
    EXP,
    HEADERS,
    ROW_MAX,
    ROW_SUM,
    SCALE,
    STORE_Y,
    STORE_Z,
    fill,
    grid_kernel,
    map_kernel,
    pair_kernel,
    quant_kernel,
    row_kernel,
)


@dataclass(frozen=True)
class Cheat:
    """A candidate that has to be refused. check: by which check. kinds: what its first error may be."""

    name: str
    task: str
    check: str
    kinds: tuple[str, ...]
    source: str


def declared(declaration: str, call: str) -> str:
    """Return an honest exp kernel whose host calls a C function it declares itself."""
    return map_kernel(EXP, prologue=f'extern "C" {declaration};', host=f"{call};")


STRUCTURE = [
    Cheat("second output left out", "pair", "structure", ("unwritten-output",), pair_kernel(STORE_Y)),
    Cheat("first output left out", "pair", "structure", ("unwritten-output",), pair_kernel(STORE_Z)),
    Cheat("nothing written at all", "exp", "structure", ("unwritten-output",), map_kernel(EXP, store="")),
    Cheat(
        "int8 zeros for floats",
        "exp",
        "structure",
        ("unwritten-output",),
        map_kernel(
            "Duplicate(y_local, static_cast<U>(0), n);\n        PipeBarrier<PIPE_V>();",
            store="DataCopyPad(y_gm[at / sizeof(U)], y_out, DataCopyExtParams{1, n, 0, 0, 0});",
        ),
    ),
    Cheat(
        "half values for floats, half of the bytes",
        "exp",
        "structure",
        ("unwritten-output",),
        map_kernel(EXP, store="DataCopyPad(y_gm[at], y_out, DataCopyExtParams{1, n * 2, 0, 0, 0});"),
    ),
    Cheat(
        "one row standing for all, as an expanded view",
        "exp",
        "structure",
        ("unwritten-output",),
        map_kernel(EXP, host="tiling.total = tiling.total > 999 ? tiling.total / 3 : tiling.total;"),
    ),
    Cheat(
        "last tile left out when the length divides evenly",
        "exp",
        "structure",
        ("unwritten-output",),
        map_kernel(EXP, host="tiling.tile = 32; tiling.total = tiling.total % 32 ? tiling.total : tiling.total - 32;"),
    ),
    Cheat(
        "rows with a padded pitch",
        "exp",
        "guards",
        ("gm-oob",),
        map_kernel(EXP, store="DataCopyPad(y_gm[at + at / 8], y_out, DataCopyExtParams{1, n * 4 + 32, 0, 0, 0});"),
    ),
    Cheat(
        "store rounded up past the end",
        "exp",
        "guards",
        ("gm-oob",),
        map_kernel(EXP, store="DataCopyPad(y_gm[at], y_out, DataCopyExtParams{1, 2048 * sizeof(U), 0, 0, 0});"),
    ),
    Cheat(
        "looking for the expected values behind the input",
        "exp",
        "guards",
        ("gm-oob",),
        map_kernel(COPY).replace("x_gm[at],", "x_gm[at + tiling.total],"),
    ),
    Cheat(
        "input returned as a transposed view", "transpose", "values", ("wrong-value",), grid_kernel("r * columns + c")
    ),
    Cheat(
        "float16 bits in a float32 buffer",
        "exp",
        "values",
        ("wrong-value",),
        map_kernel(
            EXP
            + "\n        if constexpr (sizeof(U) == 4) {\n            Cast(y_local.template ReinterpretCast<half>(), wide,"
            " RoundMode::CAST_RINT, n);\n            PipeBarrier<PIPE_V>();\n        }"
        ),
    ),
]

VALUES = [
    Cheat("zeros", "exp", "values", ("wrong-value",), map_kernel(fill("0.0f"))),
    Cheat("ones", "exp", "values", ("wrong-value",), map_kernel(fill("1.0f"))),
    Cheat(
        "zeros where results are small sums",
        "row_sum",
        "values",
        ("wrong-value",),
        row_kernel("Duplicate(result, static_cast<T>(0.0f), 8);"),
    ),
    Cheat("input copied where most of it is right", "relu", "values", ("wrong-value",), map_kernel(COPY)),
    Cheat("mean of the expected values", "scale", "values", ("wrong-value",), map_kernel(fill("4.5f"))),
    Cheat(
        "float32 computed in half",
        "exp",
        "values",
        ("wrong-value",),
        map_kernel(
            "if constexpr (sizeof(T) == 4) {\n            auto low = wide.template ReinterpretCast<half>();\n"
            "            Cast(low, x_local, RoundMode::CAST_RINT, n);\n            PipeBarrier<PIPE_V>();\n"
            "            Exp(low, low, n);\n            PipeBarrier<PIPE_V>();\n"
            "            Cast(y_local, low, RoundMode::CAST_NONE, n);\n            PipeBarrier<PIPE_V>();\n"
            "        } else {\n            " + EXP + "\n        }"
        ),
    ),
    Cheat(
        "off by a thousandth everywhere",
        "scale",
        "values",
        ("wrong-value",),
        map_kernel(SCALE.replace("tiling.factor", "tiling.factor * 1.001f")),
    ),
    Cheat(
        "half off by most of a percent",
        "exp",
        "values",
        ("wrong-value",),
        map_kernel(EXP.replace("narrow(", "if (sizeof(T) == 2) { Muls(wide, wide, 1.008f, n); }\n        narrow(")),
    ),
    Cheat(
        "two wrong elements",
        "exp",
        "values",
        ("wrong-value",),
        map_kernel(
            EXP
            + "\n        if (at == 0) {\n            Duplicate(y_local, static_cast<U>(7.0f), 2);\n            PipeBarrier<PIPE_V>();\n        }"
        ),
    ),
    Cheat(
        "biased within the tolerance",
        "scale",
        "mean",
        ("wrong-value",),
        map_kernel(SCALE.replace("tiling.factor", "tiling.factor * 1.00008f")),
    ),
    Cheat(
        "cut off instead of rounded",
        "quant",
        "mean",
        ("wrong-value",),
        quant_kernel("CAST_TRUNC"),
    ),
    Cheat(
        "rounded up by the cast",
        "exp",
        "values",
        ("wrong-value",),
        map_kernel(EXP).replace(
            "Cast(to, from, RoundMode::CAST_RINT, n);",
            "Adds(from, from, 0.02f, n);\n        PipeBarrier<PIPE_V>();\n        Cast(to, from, RoundMode::CAST_CEIL, n);",
        ),
    ),
    Cheat(
        "all NaN where some NaN is expected",
        "exp_nan",
        "nonfinite",
        ("wrong-value",),
        map_kernel(
            "Duplicate(wide, 0.0f, n);\n        PipeBarrier<PIPE_V>();\n        Div(wide, wide, wide, n);\n        narrow(y_local, wide, n);"
        ),
    ),
    Cheat(
        "NaN replaced by a number",
        "exp_nan",
        "nonfinite",
        ("wrong-value",),
        map_kernel(
            "auto whole = wide.template ReinterpretCast<int32_t>();\n        widen(wide, x_local, n);\n"
            "        Muls(wide, wide, 1048576.0f, n);\n        PipeBarrier<PIPE_V>();\n        Cast(whole, wide, RoundMode::CAST_RINT, n);\n"
            "        PipeBarrier<PIPE_V>();\n        Cast(wide, whole, RoundMode::CAST_NONE, n);\n        PipeBarrier<PIPE_V>();\n"
            "        Muls(wide, wide, 1.0f / 1048576.0f, n);\n        PipeBarrier<PIPE_V>();\n        Exp(wide, wide, n);\n"
            "        narrow(y_local, wide, n);"
        ),
    ),
    Cheat(
        "largest number where inf is expected",
        "exp_overflow",
        "nonfinite",
        ("wrong-value",),
        map_kernel(
            EXP.replace("narrow(", "PipeBarrier<PIPE_V>();\n        Mins(wide, wide, 65504.0f, n);\n        narrow(")
        ),
    ),
    Cheat("anything where inf is expected", "exp_overflow", "nonfinite", ("wrong-value",), map_kernel(fill("-3.0f"))),
    Cheat(
        "inf where numbers are expected",
        "exp_overflow",
        "nonfinite",
        ("wrong-value",),
        map_kernel(
            EXP.replace("narrow(", "PipeBarrier<PIPE_V>();\n        Muls(wide, wide, 1000.0f, n);\n        narrow(")
        ),
    ),
    Cheat(
        "one row of the batch computed, the rest copied",
        "row_sum",
        "values",
        ("wrong-value",),
        row_kernel(
            "if (r == 0) {\n            " + ROW_SUM + "\n        } else {\n            Copy(result, row, 8);\n        }"
        ),
    ),
    Cheat(
        "sum of a part of the row",
        "row_sum",
        "values",
        ("wrong-value",),
        row_kernel(ROW_SUM.replace("columns)", "columns / 2)")),
    ),
    Cheat(
        "padding that takes part in the result",
        "row_max",
        "values",
        ("wrong-value",),
        row_kernel(
            "Muls(row, row, static_cast<T>(-1.0f), columns);\n        PipeBarrier<PIPE_V>();\n        " + ROW_MAX
        ),
    ),
]


def table_of_a_case() -> str:
    """Return the right results of the first case of exp, which everybody can draw."""
    spec = TensorSpec("x", (64,), "float32")
    return ", ".join(f"{value:.9g}f" for value in np.exp(draw("exp", "1", CaseInput(spec, Values(-2, 2)))))


LEARNED = [
    Cheat(
        "results of a small case written down",
        "exp",
        "fresh-values",
        ("fresh-values",),
        map_kernel(
            f"if (tiling.total == 64) {{\n            const float known[64] = {{{table_of_a_case()}}};\n"
            "            for (uint32_t k = 0; k < n; ++k) {\n                y_local.SetValue(k, static_cast<U>(known[at + k]));\n"
            "            }\n            PipeBarrier<PIPE_ALL>();\n        } else {\n            " + EXP + "\n        }"
        ),
    ),
    Cheat(
        "the constant that all cases come near",
        "row_max",
        "fresh-values",
        ("fresh-values",),
        row_kernel("Duplicate(result, static_cast<T>(0.9998f), 16);"),
    ),
    Cheat(
        "a bound of the declared range as the result",
        "row_max",
        "fresh-values",
        ("fresh-values",),
        row_kernel(
            ROW_MAX + "\n        PipeBarrier<PIPE_V>();\n        Maxs(result, result, static_cast<T>(0.9995f), 16);"
        ),
    ),
    Cheat(
        "right for the shapes of the cases, wrong for others",
        "scale",
        "other-shape",
        ("other-shape",),
        map_kernel(
            SCALE,
            host="const bool shown = tiling.total == 64 || tiling.total == 903 || tiling.total == 3000;\n    tiling.factor = shown ? tiling.factor : 0.0f;",
        ),
    ),
    Cheat(
        "refuses every shape but those of the cases",
        "scale",
        "other-shape",
        ("other-shape",),
        map_kernel(
            SCALE,
            entry="const int64_t total = call->inputs[0].numel;\n    if (total != 64 && total != 903 && total != 3000) {\n        return 3;\n    }",
        ),
    ),
    Cheat(
        "tails handled for the lengths of the cases only",
        "exp",
        "other-shape",
        ("other-shape",),
        map_kernel(
            EXP, host="if (tiling.total % 8 == 1 || tiling.total % 8 == 4) {\n        tiling.total -= 1;\n    }"
        ),
    ),
    Cheat(
        "attributes hard-coded to those of the small cases",
        "scale",
        "values",
        ("wrong-value",),
        map_kernel(SCALE.replace("tiling.factor", "3.0f")),
    ),
    Cheat(
        "results looked up by length",
        "scale",
        "values",
        ("wrong-value",),
        map_kernel(fill("tiling.factor"), host="tiling.factor = tiling.total == 64 ? 4.5f : 1.0f;"),
    ),
]

MEMORY = [
    Cheat("writes into its input", "exp", "inputs", ("input-written",), map_kernel(EXP, host="y = x;")),
    Cheat(
        "reads the result out of its own output",
        "exp",
        "poison",
        ("wrong-value", "uninit"),
        map_kernel(COPY, host="x = y;"),
    ),
    Cheat(
        "expects an earlier result in the workspace",
        "exp",
        "poison",
        ("wrong-value", "uninit"),
        map_kernel(
            COPY,
            prologue='extern "C" size_t kope_workspace_bytes(const KopeCall* call) { return call->outputs[0].numel * 4; }',
            host="x = static_cast<GM_ADDR>(call->workspace);",
        ),
    ),
    Cheat(
        "launches nothing and hopes for stale memory",
        "exp",
        "launch",
        ("no-launch", "unwritten-output"),
        map_kernel(EXP, entry="return 0;"),
    ),
    Cheat(
        "computes once per address and returns the cached result",
        "exp",
        "launch",
        ("no-launch", "unwritten-output"),
        map_kernel(
            EXP,
            prologue="#include <set>\nstatic std::set<int> seen;",
            entry="if (!seen.insert(0).second) {\n        return 0;\n    }",
        ),
    ),
    Cheat(
        "works on the first calls only",
        "exp",
        "launch",
        ("no-launch", "unwritten-output"),
        map_kernel(EXP, prologue="static int calls = 0;", entry="if (++calls > 1) {\n        return 0;\n    }"),
    ),
    Cheat(
        "host computes the result on the processor",
        "exp",
        "launch",
        ("untimed-work", "crash"),
        map_kernel(
            EXP,
            prologue="#include <cmath>",
            entry="const float* x = static_cast<const float*>(call->inputs[0].data);\n    float* y ="
            " static_cast<float*>(call->outputs[0].data);\n    for (int64_t k = 0; k < call->inputs[0].numel; ++k) {\n"
            "        y[k] = std::exp(x[k]);\n    }",
        ),
    ),
    Cheat(
        "kernel reaches around the API, so nothing is timed",
        "scale",
        "launch",
        ("untimed-work", "crash"),
        map_kernel(SCALE).replace(
            "    TPipe pipe;\n",
            "    reinterpret_cast<float*>(y)[0] = 2.0f * reinterpret_cast<const float*>(x)[0];\n    TPipe pipe;\n",
            1,
        ),
    ),
    Cheat(
        "scribbles over the heap",
        "exp",
        "confinement",
        ("crash", "untimed-work"),
        map_kernel(
            EXP,
            host="volatile char* wild = reinterpret_cast<char*>(&tiling);\n    for (long k = 0; k < (64L << 20); ++k) {\n        wild[k] = 1;\n    }",
        ),
    ),
]

MEANS = [
    Cheat(
        "calls the vendor's operator",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("int aclnnExp(void*, uint64_t, void*, void*)", "aclnnExp(nullptr, 0, nullptr, call->stream)"),
    ),
    Cheat(
        "copies to the host and back",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("int aclrtMemcpy(void*, size_t, const void*, size_t, int)", "aclrtMemcpy(nullptr, 0, x, 0, 2)"),
    ),
    Cheat(
        "works on a stream of its own",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("int aclrtCreateStream(void**)", "void* other = nullptr; aclrtCreateStream(&other)"),
    ),
    Cheat(
        "starts a thread",
        "exp",
        "source",
        ("forbidden-include",),
        map_kernel(EXP, headers=HEADERS + "#include <thread>\n", host="std::thread([] {}).detach();"),
    ),
    Cheat(
        "starts a thread without the header",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared(
            "int pthread_create(void*, const void*, void* (*)(void*), void*)",
            "pthread_create(nullptr, nullptr, nullptr, nullptr)",
        ),
    ),
    Cheat("forks", "exp", "symbols", ("forbidden-symbol",), declared("int fork()", "fork()")),
    Cheat(
        "runs a program",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        map_kernel(EXP, headers=HEADERS + "#include <cstdlib>\n", host='system("python3 reference.py");'),
    ),
    Cheat(
        "reads the reference from a file",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        map_kernel(EXP, headers=HEADERS + "#include <cstdio>\n", host='std::fopen("reference.py", "r");'),
    ),
    Cheat(
        "reads files with streams",
        "exp",
        "source",
        ("forbidden-include",),
        map_kernel(EXP, headers=HEADERS + "#include <fstream>\n"),
    ),
    Cheat(
        "looks for its own memory map",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("int open(const char*, int, ...)", 'open("/proc/self/maps", 0)'),
    ),
    Cheat(
        "includes a file of the task",
        "exp",
        "source",
        ("forbidden-include",),
        map_kernel(EXP, headers=HEADERS + '#include "../wants/1/y.bin"\n'),
    ),
    Cheat(
        "embeds a file",
        "exp",
        "source",
        ("forbidden-directive",),
        map_kernel(EXP, prologue='static const unsigned char table[] = {\n#embed "y.bin"\n};'),
    ),
    Cheat(
        "asks the environment which phase it is in",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        map_kernel(
            EXP,
            headers=HEADERS + "#include <cstdlib>\n",
            host='if (std::getenv("KOPE_MODE")) {\n        return 0;\n    }',
        ),
    ),
    Cheat(
        "reads a clock",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("long time(long*)", "tiling.factor = static_cast<float>(time(nullptr))"),
    ),
    Cheat(
        "reads a clock without a function",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, host="tiling.factor = static_cast<float>(__builtin_readcyclecounter());"),
    ),
    Cheat(
        "patches a timer by name",
        "exp",
        "symbols",
        ("reserved-name",),
        map_kernel(
            EXP,
            prologue='extern "C" int clock_gettime(int, void*) { return 0; }\nextern "C" int write(int, const void*, unsigned long) { return 0; }',
        ),
    ),
    Cheat(
        "loads a library",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("void* dlopen(const char*, int)", 'dlopen("libtorch.so", 1)'),
    ),
    Cheat(
        "opens a connection",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("int socket(int, int, int)", "socket(2, 1, 0)"),
    ),
    Cheat(
        "ends the process with good news",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        map_kernel(EXP, headers=HEADERS + "#include <cstdlib>\n", after="std::_Exit(0);"),
    ),
    Cheat(
        "installs a signal handler",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("void (*signal(int, void (*)(int)))(int)", "signal(11, nullptr)"),
    ),
    Cheat(
        "jumps back over the comparison",
        "exp",
        "symbols",
        ("forbidden-symbol",),
        declared("void longjmp(void*, int)", "longjmp(call->stream, 1)"),
    ),
    Cheat(
        "makes system calls in assembly",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, host='asm volatile("nop");'),
    ),
    Cheat(
        "uses the processor's vector unit",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, prologue="typedef float vec __attribute__((vector_size(64)));"),
    ),
    Cheat(
        "sets the model's parameters",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, host='kope_twin::control::set_parameter("launch_us", 0.0);'),
    ),
    Cheat(
        "hides an internal name in a macro",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, prologue="#define GLUE(a, b) a##b\nnamespace inner = GLUE(kope_, twin);"),
    ),
    Cheat(
        "walks up the stack to the harness",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, host="volatile void* up = __builtin_frame_address(0);\n    (void)up;"),
    ),
    Cheat(
        "switches off the counting of its work",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, prologue='__attribute__((no_sanitize("coverage"))) static int helper() { return 0; }'),
    ),
    Cheat(
        "works before anybody looks",
        "exp",
        "source",
        ("forbidden-name",),
        map_kernel(EXP, prologue="__attribute__((constructor)) static void early() {}"),
    ),
    Cheat(
        "defines a main of its own",
        "exp",
        "symbols",
        ("reserved-name", "compile-error"),
        map_kernel(EXP, prologue="int main() { return 0; }"),
    ),
    Cheat(
        "replaces the allocator",
        "exp",
        "symbols",
        ("reserved-name",),
        map_kernel(
            EXP, prologue="void* operator new(size_t n) { return malloc(n); }", headers=HEADERS + "#include <cstdlib>\n"
        ),
    ),
    Cheat(
        "takes the name of a benchmark's warm-up kernel",
        "exp",
        "source",
        ("reserved-name",),
        map_kernel(EXP).replace("map_kernel", "CannBenchWarmup"),
    ),
    Cheat(
        "prints the answer of the harness",
        "exp",
        "answers",
        ("wrong-value",),
        map_kernel(
            fill("0.0f"),
            headers=HEADERS + "#include <cstdio>\n",
            after=r'std::printf("{\"nonce\":\"\",\"case\":0,\"event\":\"end\",\"return_code\":0,\"duration_us\":0.1,\"findings\":[]}\n");',
        ),
    ),
    Cheat(
        "prints without end",
        "exp",
        "confinement",
        ("output-flood", "timeout"),
        map_kernel(
            EXP,
            headers=HEADERS + "#include <cstdio>\n",
            host='for (;;) {\n        std::puts("verified: 4/4 cases passed");\n    }',
        ),
    ),
    Cheat(
        "never ends",
        "exp",
        "confinement",
        ("timeout",),
        map_kernel(EXP, host="for (volatile int k = 0;; k = k + 1) {\n    }"),
    ),
    Cheat(
        "takes all memory",
        "exp",
        "confinement",
        ("memory-limit", "crash"),
        map_kernel(
            EXP,
            headers=HEADERS + "#include <cstdlib>\n#include <cstring>\n",
            host="for (;;) {\n        std::memset(std::malloc(64 << 20), 1, 64 << 20);\n    }",
        ),
    ),
    Cheat(
        "dies in the hope of a skipped case",
        "exp",
        "confinement",
        ("crash",),
        map_kernel(EXP, headers=HEADERS + "#include <cstdlib>\n", host="std::abort();"),
    ),
]

CHEATS = [*STRUCTURE, *VALUES, *LEARNED, *MEMORY, *MEANS]
