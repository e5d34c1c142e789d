"""`fuselight upgrade` with two real interpreters: the same torch twice, of which one is changed at its start."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command import run_cli
from tests.support.prepared import prepared_interpreter

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

SHIM = """\
import torch
torch.__version__ = torch.version.__version__ = torch.torch_version.TorchVersion("2.12.9")
torch.bygone = torch.sin
_matmul = torch.matmul
torch.matmul = lambda first, second: _matmul(first, second.t())
"""
MODEL = """\
import torch


# fuselight: same(f32[8, 8])
def same(x):
    return torch.mm(x, x)


# fuselight: removed(f32[8, 8])
def removed(x):
    return torch.bygone(x)


# fuselight: moved(f32[8, 8])
def moved(x):
    return torch.matmul(x, x)
"""


def test_a_name_that_is_gone_and_results_that_moved_are_regressions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim" / "sitecustomize.py").write_text(SHIM)
    python = tmp_path / "old" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path / "shim"}" exec "{prepared_interpreter()}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    arguments = ("--from", "old", "--to", prepared_interpreter(), "--do", "numerics", "--out", "kept")
    done = run_cli("upgrade", "model.py", *arguments, "--format", "json")
    assert done.exit_code == 1, done.stderr
    data = json.loads(done.stdout)
    assert data["before"]["torch"] == "2.12.9"
    targets = {target["name"]: target for target in data["targets"]}
    assert targets["same"]["regressions"] == []
    assert [call["change"] for call in targets["same"]["results"]] == ["equal"]

    assert targets["removed"]["state"] == "runs only before"
    assert targets["removed"]["regressions"] == ["failures"]
    (failure,) = targets["removed"]["findings"]
    assert (failure["state"], failure["finding"]["code"]) == ("new", "FL401")
    assert "`torch.bygone` is not in torch" in json.dumps(failure["finding"])

    assert targets["moved"]["regressions"] == ["numerics"]
    (moved,) = targets["moved"]["own_findings"]
    assert moved["code"] == "FL931"
    assert moved["title"] == "eager results changed also in float64, so this is no rounding"

    again = run_cli("upgrade", "model.py", *arguments, "--resume")
    assert again.exit_code == 1
    assert again.stdout.index("Regressions") < again.stdout.index("model.py: removed")
    assert "No difference in 1 target: model.py: same" in again.stdout
    assert os.listdir("kept/targets")  # noqa: PTH208 - any
