"""Cheats whose results are wrong somewhere: left out, made up, learned by heart, of less precision than asked for."""

# ruff: noqa: E501 - a snippet of C++ reads best on its own line
from __future__ import annotations

import numpy as np

from kope.evaluate.inputs import draw
from kope.model import CaseInput, TensorSpec, Values

from .cheat import Cheat
from .kernels import (
    COPY,
    EXP,
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
        "the constant for long rows only",
        "row_max",
        "fresh-values",
        ("fresh-values",),
        row_kernel(
            "if (columns > 4500) {\n            Duplicate(result, static_cast<T>(0.9998f), 16);\n        } else {\n            "
            + ROW_MAX
            + "\n        }"
        ),
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
