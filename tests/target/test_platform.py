"""Host code of others that asks for the chip is answered for the one the twin models."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope.target.twin import TwinTarget, parameters
from kope.target.twin.foreign import Foreign

PROGRAM = """
#include <cstdio>
#include "acl/acl.h"
#include "kernel_operator.h"
#include "tiling/platform/platform_ascendc.h"

__global__ __aicore__ void nothing(GM_ADDR x)
{
    AscendC::GlobalTensor<int32_t> target;
    target.SetGlobalBuffer((__gm__ int32_t*)x);
    target.SetValue(0, 1);
}

int main()
{
    auto* chip = platform_ascendc::PlatformAscendCManager::GetInstance();
    uint64_t ub = 0, l2 = 0;
    chip->GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
    chip->GetCoreMemSize(platform_ascendc::CoreMemType::L2, l2);
    const bool a3 = chip->GetSocVersion() == platform_ascendc::SocVersion::ASCEND910_93;
    std::printf("%s %u %u %llu %llu %d\\n", aclrtGetSocName(), chip->GetCoreNumAiv(), chip->GetCoreNumAic(),
        (unsigned long long)ub, (unsigned long long)l2 >> 20, (int)a3);
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    uint8_t* x;
    aclrtMalloc((void**)&x, 32, ACL_MEM_MALLOC_HUGE_FIRST);
    nothing<<<1, nullptr, stream>>>(x);
    aclrtSynchronizeStream(stream);
    return 0;
}
"""
CHIPS = {
    "910b1": "Ascend910B1 48 24 196352 192 0",
    "910b2": "Ascend910B2 48 24 196352 192 0",
    "910b2:2": "Ascend910B2 48 24 196352 192 0",
    "910b3": "Ascend910B3 40 20 196352 192 0",
    "910b4": "Ascend910B4 40 20 196352 96 0",
    "910c": "Ascend910_9382 48 24 196352 168 1",
}


def test_every_chip_is_asked() -> None:
    assert tuple(CHIPS) == parameters.names()


@pytest.mark.parametrize("chip", CHIPS)
def test_platform_queries_answer_for_the_chip(chip: str, twin_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "ask.asc").write_text(PROGRAM)
    run = Foreign(TwinTarget(twin_cache, chip=chip)).run(tmp_path / "ask.asc", None, folder=tmp_path)
    assert run.ok, (run.diagnostics, run.log)
    assert CHIPS[chip] in run.log.splitlines()
