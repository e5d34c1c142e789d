"""`fuselight memory --measure` on a device: the allocator's own peak, on lines, beside the estimate for the device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
MODEL = """\
import torch
from torch import nn

# fuselight: Net()(f32[4096, 512], train=True, device="cuda")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        h = self.up(x)
        h = nn.functional.gelu(h)
        return self.down(h).square().mean()
"""
UP = 11


def test_a_step_is_measured_by_the_allocator_and_on_its_lines(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "fuselight_server", "memory", "model.py", "--measure", "--format", "json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ.copy(),
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (call,) = json.loads(done.stdout)["targets"][0]["calls"]
    assert call["why_not_measured"] == ""
    for form in ("eager", "compiled"):
        measured, estimate = call[f"measured_{form}"], call[form]
        assert sum(row["bytes"] for row in measured["held"]) == measured["bytes"]
        assert measured["bytes"] <= measured["reserved"]
        assert measured["between_tensors"] >= 0
        assert UP in {row["location"]["line"] for row in measured["held"] if row["location"]}
        assert measured["bytes"] == pytest.approx(estimate["bytes"], rel=0.05)
