"""The script of a graph's kernels runs by itself, and tells kernels that are wrong from those that are right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.report import Device, Phase, Report, Tier
from fuselight_server.kernels.documents import SCRIPT, document, key_of
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch
SOURCE = """\
import torch
# fuselight: f(f32[64, 32], f32[32, 16], train=True)
def f(x, w):
    return torch.nn.functional.gelu(x @ w) * 2
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    live = LiveWorker(tmp_path_factory.mktemp("workspace"))
    cpu = Device("cpu", "CPU", "cpu", "", 2)
    yield live.report(replace(live.request(SOURCE, "f"), tier=Tier.KERNELS, device=cpu))
    live.close()


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(path)], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD])
def test_it_checks_and_times_the_kernels(report: Report, phase: Phase, tmp_path: Path) -> None:
    graph = next(one for one in report.generated if one.phase is phase)
    made = document(report, key_of(graph), SCRIPT)
    assert made is not None
    done = run(made.text, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "output 0: agrees, by " in done.stdout
    assert "DIFFERS" not in done.stdout


def test_it_fails_where_a_kernel_is_wrong(report: Report, tmp_path: Path) -> None:
    graph = next(one for one in report.generated if one.phase is Phase.FORWARD)
    made = document(report, key_of(graph), SCRIPT)
    assert made is not None
    wrong = made.text.replace("0.7071067811865476", "0.6")
    assert wrong != made.text
    cpp, _, graph_text = wrong.partition("def captured_graph(")
    text = cpp + "def captured_graph(" + graph_text.replace("0.6)", "0.7071067811865476)")
    done = run(text, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "output 0: DIFFERS" in done.stdout
    assert "do not give what the captured graph gives" in done.stderr
