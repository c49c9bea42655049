"""Kernels that look like cheats and are none: every one of them has to pass."""

# ruff: noqa: E501 - a snippet of C++ reads best on its own line
from __future__ import annotations

from dataclasses import dataclass

from .kernels import (
    EXP,
    HEADERS,
    RELU,
    ROW_MAX,
    ROW_SUM,
    SCALE,
    STORE_Y,
    STORE_Z,
    grid_kernel,
    map_kernel,
    pair_kernel,
    quant_kernel,
    row_kernel,
)


@dataclass(frozen=True)
class Legal:
    """A candidate that has to be verified, and what it looks like."""

    name: str
    task: str
    source: str


CSTDIO, CSTDLIB = HEADERS + "#include <cstdio>\n", HEADERS + "#include <cstdlib>\n"

LEGAL = [
    Legal("plain kernel", "exp", map_kernel(EXP)),
    Legal("two outputs", "pair", pair_kernel()),
    Legal("two outputs in the other order", "pair", pair_kernel(f"{STORE_Z}\n        {STORE_Y}")),
    Legal("transposes by scattered stores of 4 bytes", "transpose", grid_kernel("c * rows + r")),
    Legal(
        "branches on the shape and is right on both sides",
        "exp",
        map_kernel(EXP, host="tiling.tile = tiling.total % 64 == 0 ? 64 : 512;"),
    ),
    Legal(
        "has a constant for one public length",
        "exp",
        map_kernel(EXP, host="if (tiling.total == 999) {\n        tiling.tile = 333;\n    }"),
    ),
    Legal("one core", "exp", map_kernel(EXP, host="tiling.per_core = tiling.total;\n    blocks = 1;")),
    Legal("more blocks than work", "exp", map_kernel(EXP, host="blocks = call->vector_core_count;")),
    Legal(
        "prints its tiling",
        "exp",
        map_kernel(
            EXP,
            headers=CSTDIO,
            host='std::printf("total %llu, verified: no\\n", static_cast<unsigned long long>(tiling.total));',
        ),
    ),
    Legal(
        "tables in containers",
        "exp",
        map_kernel(
            EXP,
            headers=HEADERS + "#include <map>\n#include <vector>\n",
            host="const std::map<int, uint32_t> tiles{{4, 1024}, {2, 2048}};\n    std::vector<uint32_t> sizes{tiles.at(static_cast<int>(sizeof(T)))};\n    tiling.tile = sizes.front();",
        ),
    ),
    Legal(
        "a table kept for all calls",
        "exp",
        map_kernel(
            EXP,
            headers=HEADERS + "#include <map>\n",
            host="static const std::map<int, uint32_t> tiles{{4, 1024}, {2, 2048}};\n    tiling.tile = tiles.at(static_cast<int>(sizeof(T)));",
        ),
    ),
    Legal(
        "identifiers like forbidden ones",
        "exp",
        map_kernel(
            EXP,
            prologue="static uint64_t open_rows(uint64_t time) { return time; }\nstruct socket_like { int thread_count; };",
            host="const uint64_t clock = open_rows(tiling.total);\n    tiling.total = clock;",
        ),
    ),
    Legal(
        "comments and strings about forbidden things",
        "exp",
        map_kernel(
            EXP,
            prologue='// aclnnExp, asm, kope_twin, fopen: none of them is used here\nstatic const char* const note = "kope_twin asm #include <thread>";',
            host="(void)note;",
        ),
    ),
    Legal(
        "functions named like the C library's, in a namespace",
        "exp",
        map_kernel(
            EXP,
            prologue="namespace mine { static uint64_t read(uint64_t n) { return n; } static uint64_t wait(uint64_t n) { return n; } }",
            host="tiling.total = mine::wait(mine::read(tiling.total));",
        ),
    ),
    Legal(
        "attributes of plain C++",
        "exp",
        map_kernel(
            EXP,
            prologue="struct alignas(64) Wide { [[maybe_unused]] int a; };\n__attribute__((always_inline)) static inline int one() { return 1; }",
            host="[[maybe_unused]] const int k = one();",
        ),
    ),
    Legal(
        "harmless macros",
        "exp",
        map_kernel(
            EXP,
            prologue="#define TILE(name, size) name##size\n#define UNUSED 1\n#define ROUND_UP(a, b) (((a) + (b) - 1) / (b) * (b))",
            host="const uint32_t TILE(tile_, 512) = ROUND_UP(500, 512);\n    tiling.tile = tile_512;",
        ),
    ),
    Legal(
        "throws and catches on the host",
        "exp",
        map_kernel(
            EXP,
            host="try {\n        if (tiling.total > 1) { throw 2048u; }\n    } catch (unsigned tile) {\n        tiling.tile = tile;\n    }",
        ),
    ),
    Legal(
        "checks its arguments",
        "exp",
        map_kernel(
            EXP, headers=HEADERS + "#include <cassert>\n", host="assert(call->input_count == 1 && tiling.total > 0);"
        ),
    ),
    Legal(
        "plans with floating point",
        "exp",
        map_kernel(
            EXP,
            headers=HEADERS + "#include <cmath>\n",
            host="tiling.tile = static_cast<uint32_t>(std::pow(2.0, std::floor(std::log2(2048.0))));",
        ),
    ),
    Legal(
        "plans on the heap",
        "exp",
        map_kernel(
            EXP,
            headers=CSTDLIB,
            host="auto* plan = static_cast<Tiling*>(std::malloc(sizeof(Tiling)));\n    *plan = tiling;\n    tiling = *plan;\n    std::free(plan);",
        ),
    ),
    Legal(
        "counts its calls and does not care",
        "exp",
        map_kernel(EXP, prologue="static int calls = 0;", host="calls += 1;"),
    ),
    Legal(
        "launches twice, the second over the first",
        "exp",
        map_kernel(EXP, host="map_kernel<T, U><<<blocks, nullptr, call->stream>>>(x, y, tiling);"),
    ),
    Legal(
        "uses a workspace it has written",
        "exp",
        map_kernel(
            EXP,
            prologue='extern "C" size_t kope_workspace_bytes(const KopeCall* call) { return call->outputs[0].numel * 4; }',
            host="GM_ADDR middle = static_cast<GM_ADDR>(call->workspace);\n    map_kernel<T, U><<<blocks, nullptr, call->stream>>>(x, middle, tiling);\n"
            "    (void)middle;",
        ),
    ),
    Legal(
        "branches on a value it reads, at the cost of reading it",
        "exp",
        map_kernel(
            "if (x_local.GetValue(0) > static_cast<T>(0.0f)) {\n            PipeBarrier<PIPE_ALL>();\n        }\n        "
            + EXP
        ),
    ),
    Legal("zeros where zeros are right", "relu", map_kernel(RELU)),
    Legal(
        "zeros written first",
        "relu",
        map_kernel(
            "Duplicate(y_local, static_cast<U>(0.0f), n);\n        PipeBarrier<PIPE_V>();\n        Max(y_local, x_local, y_local, n);\n        PipeBarrier<PIPE_V>();"
        ),
    ),
    Legal("largest value of each row", "row_max", row_kernel(ROW_MAX)),
    Legal("sum in another order than the reference", "row_sum", row_kernel(ROW_SUM)),
    Legal(
        "sum of two halves",
        "row_sum",
        row_kernel(
            "const uint32_t half_way = columns / 16 * 8;\n        if (half_way == 0) {\n            "
            + ROW_SUM
            + "\n        } else {\n            ReduceSum(result, row[half_way], scratch, static_cast<int32_t>(columns - half_way));\n            PipeBarrier<PIPE_ALL>();\n            const T tail = result.GetValue(0);\n            PipeBarrier<PIPE_ALL>();\n            ReduceSum(result, row, scratch, static_cast<int32_t>(half_way));\n            PipeBarrier<PIPE_ALL>();\n            Adds(result, result, tail, 1);\n        }"
        ),
    ),
    Legal("rounds ties the other way, within the tolerance", "quant", quant_kernel("CAST_ROUND")),
    Legal(
        "attribute folded into two steps",
        "scale",
        map_kernel(
            SCALE.replace(
                "Muls(wide, wide, tiling.factor, n);",
                "Muls(wide, wide, tiling.factor * 0.5f, n);\n        PipeBarrier<PIPE_V>();\n        Add(wide, wide, wide, n);",
            )
        ),
    ),
    Legal("last bit off", "scale", map_kernel(SCALE.replace("tiling.factor", "tiling.factor * 1.0000001f"))),
    Legal("inf where half overflows", "exp_overflow", map_kernel(EXP)),
    Legal("NaN where NaN is expected", "exp_nan", map_kernel(EXP)),
    Legal(
        "made for one shape, where the task has one",
        "fixed_scale",
        map_kernel(
            SCALE.replace("tiling.factor", "3.0f"), entry="if (call->inputs[0].numel != 64) {\n        return 3;\n    }"
        ),
    ),
    Legal(
        "copies where copying is the operator",
        "transpose",
        grid_kernel("c * rows + r").replace("grid_kernel", "identity_like"),
    ),
]
