"""The commands of docs/cann-bench.md run, on a small suite of ours in place of the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTO = """
operator:
  name: Exp
  difficulty: L1
  description: exp, element by element
  schema: exp(Tensor x, float scale=1.0) -> Tensor y
  inputs: [{name: x, dtype: [float32, float16]}]
  outputs: [{name: y, dtype: [float32, float16]}]
"""
CASES = """
cases:
- {operator: Exp, case_id: 1, input_shape: [[7, 33]], dtype: [float32], attrs: {}, value_range: [-1, 1]}
- {operator: Exp, case_id: 2, input_shape: [[129]], dtype: [float16], attrs: {scale: 0.5}, value_range: [-1, 1]}
"""
GOLDEN = "import torch\n\n\ndef exp(x: torch.Tensor, scale: float = 1.0):\n    return torch.exp(x * scale)\n"


@pytest.mark.torch
def test_commands_of_the_page_run(tmp_path: Path, twin_cache: Path) -> None:
    tasks = tmp_path / "cann-bench" / "tasks"
    (tasks / "metadata").mkdir(parents=True)
    (tasks / "metadata" / "910b2.json").write_text('{"level1": {"exp": {"1": {"baseline_perf_us": 9, "t_hw_us": 1}}}}')
    (tasks / "level1" / "exp").mkdir(parents=True)
    for name, text in (("proto.yaml", PROTO), ("cases.yaml", CASES), ("golden.py", GOLDEN)):
        (tasks / "level1" / "exp" / name).write_text(text)
    page = (ROOT / "docs" / "cann-bench.md").read_text("utf-8")
    commands = re.findall(r"^\$ (kope .*)$", page, re.MULTILINE)
    assert len(commands) > 5
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KOPE_CACHE": str(twin_cache.parent),
        "PYTHONPATH": str(ROOT),
    }
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    report = (tmp_path / "report.md").read_text("utf-8")
    assert "| KOPE | 2/2 | 100.0% | 1/1 | 1/1 | 0 |" in report
    assert "- by the suite's own rule, for comparison with published counts: 2/2 (100.0%)" in report
    assert (tmp_path / "submission" / "csrc" / "exp.asc").is_file()
