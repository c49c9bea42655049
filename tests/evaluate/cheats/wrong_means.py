"""Cheats that reach for what no kernel needs: other memory, the host, the clock, the process around them."""

# ruff: noqa: E501 - a snippet of C++ reads best on its own line
from __future__ import annotations

from .cheat import Cheat
from .kernels import (
    COPY,
    EXP,
    HEADERS,
    SCALE,
    fill,
    map_kernel,
)


def declared(declaration: str, call: str) -> str:
    """Return an honest exp kernel whose host calls a C function it declares itself."""
    return map_kernel(EXP, prologue=f'extern "C" {declaration};', host=f"{call};")


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
        "scribbles over the stack",
        "exp",
        "confinement",
        ("crash", "untimed-work", "memory-limit"),  # what was overwritten may have been a size
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
            host="static void* volatile kept;\n    for (;;) {\n        kept = std::malloc(64 << 20);\n"
            "        std::memset(kept, 1, 64 << 20);\n    }",
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
