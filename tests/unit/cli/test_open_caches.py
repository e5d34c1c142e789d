"""Caches and the start of a job that is opened: findings on local lines, in the terminal and as JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run_cli
from tests.support.job_logs import project
from tests.support.trace_logs import RECORDINGS

SOURCE = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = torch.relu(self.up(x))
        h = h * self.gain
        return h.sum(-1)
"""
LINE = 49
"""Line of the `with` statement in the program that ran."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a start with autocast inside; the working folder has its source."""
    text = "\n" * (LINE - 6) + SOURCE
    monkeypatch.chdir(project(tmp_path / "source", {"train.py": text}))
    folder = tmp_path / "today"
    folder.mkdir()
    recorded = RECORDINGS / "caches" / "torch-2.13" / "autocast_inside.log.gz"
    shutil.copy(recorded, folder / "dedicated_log_torch_trace_x.log.gz")
    return folder


def test_a_bypass_is_a_finding_on_its_local_line(job: Path) -> None:
    result = run_cli("open", str(job), "--color", "never")
    assert result.exit_code == 1
    assert "warning[FL922]: `forward` cannot be read from a compile cache" in result.stdout
    assert f"--> train.py:{LINE}:9" in result.stdout
    assert "AOTAutograd cache: 1 bypass, ~" in result.stdout
    assert f"train.py:{LINE} forward: AOTAutograd cache bypass (~" in result.stdout
    assert "start:" in result.stdout
    assert "note: The log begins with the first compile" in result.stdout


def test_the_json_has_each_lookup_and_each_start(job: Path) -> None:
    data: dict[str, Any] = json.loads(run_cli("open", str(job), "--format", "json").stdout)
    (about,) = data["jobs"]
    states = {row["cache"]: row["state"] for row in about["caches"]["results"]}
    assert states == {"aotautograd": "bypass", "fx_graph": "hit"}
    (start,) = about["starts"]
    assert start["seconds"] > 0
    assert start["lines"][0]["function"] == "forward"


def test_a_restart_in_the_same_folder_is_compared_with_the_start_before_it(job: Path) -> None:
    for name in ("base", "edited_line"):
        recorded = RECORDINGS / "caches" / "torch-2.13" / f"{name}.log.gz"
        shutil.copy(recorded, job / f"dedicated_log_torch_trace_{name}.log.gz")
    (job / "dedicated_log_torch_trace_x.log.gz").unlink()
    data: dict[str, Any] = json.loads(run_cli("open", str(job), "--format", "json").stdout)
    first, second = data["jobs"]
    assert first["caches"]["compared_with"] is None
    assert second["caches"]["compared_with"] == first["name"]
    messages = [finding["message"] for finding in data["findings"] if finding["code"] == "FL921"]
    assert len(messages) == 1
    assert "The graph has new operators in train.py:49" in messages[0]
