"""The target ascend on stand-in programs: built, run and timed through the same code as on hardware."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kope.model import Candidate
from tests.target.ascend.conftest import Install, Target
from tests.target.ascend.toolkit import NEW_A3, OLD_A2, Generation
from tests.target.launching import Call, kernel, launch_case, read_output

X = np.linspace(-3, 3, 5001, dtype=np.float32)


@pytest.mark.parametrize("generation", [NEW_A3, OLD_A2], ids=["9.1 on A3", "8.3 on 910B4"])
def test_a_kernel_is_built_run_and_timed(
    generation: Generation, install_toolkit: Install, target_on: Target, tmp_path: Path
) -> None:
    target = target_on(install_toolkit(generation))
    built = target.build(Candidate.of(kernel("exp")), tmp_path / "build")
    assert built.executable is not None, (built.diagnostics, built.log)
    case = launch_case(Call([X], [((5001,), "float32")]), tmp_path / "data", "c0")
    ran = target.run(built, [case], "verify", tmp_path / "verify", time_limit_s=60.0)
    assert [(one.case_id, one.ok, one.diagnostics) for one in ran.cases] == [("c0", True, ())], ran.log
    assert np.allclose(read_output(case), np.exp(X), rtol=1e-5)
    timed = target.run(built, [case], "time", tmp_path / "time", time_limit_s=60.0)
    (one,) = timed.cases
    assert one.ok and len(one.duration_us) == 10, (one, timed.log)
    assert one.counters["aiv_mte2_ratio"] > 0.0
