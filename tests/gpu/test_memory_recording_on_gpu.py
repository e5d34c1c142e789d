"""`fuselight run --memory` on a device: the allocator's own numbers, a leak on its line, and memory that runs out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
PROGRAM = """\
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.seen = nn.Linear(512, 512), []

    def forward(self, x):
        h = self.up(x).relu()
        self.seen.append(h.mean(0, keepdim=True).repeat(1024, 1))
        return h

net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(6):
    net(torch.randn(4096, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("peak", torch.cuda.max_memory_allocated())
if "out" in sys.argv:
    torch.cuda.set_per_process_memory_fraction(0.01)
    held = [torch.empty(1 << 28, device="cuda") for _ in range(100)]
"""
LEAK, ASKED = 12, 24


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "fuselight_server",
            "run",
            "--python",
            sys.executable,
            "--memory",
            "train.py",
            *words,
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ.copy(),
        timeout=300,
        check=False,
    )


def test_a_leak_is_on_its_line_and_the_peak_is_that_of_the_allocator(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(
        rf"warning\[FL951\]: memory grows here: 2\.1 MB more in each of 5 steps.*\n *--> train\.py:{LEAK}:",
        done.stderr,
    )
    megabytes = int(done.stdout.split()[1]) / 1e6
    assert (
        f"peak {megabytes:.1f} MB of tensors" in done.stderr
        or f"peak {megabytes:.0f} MB of tensors" in done.stderr
    )


def test_memory_that_runs_out_is_on_the_line_that_asked(tmp_path: Path) -> None:
    done = run(tmp_path, "out")
    assert done.returncode == 1
    assert "OutOfMemoryError" in done.stderr
    assert re.search(
        rf"error\[FL952\]: memory ran out here: 1\.1 GB were asked for.*\n *--> train\.py:{ASKED}:",
        done.stderr,
    )
