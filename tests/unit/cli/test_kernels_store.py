"""`fuselight kernels` creates a folder in the project only if it stores something."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.protocol import GenerateRequest, InputsPlan, Target
from fuselight.shared.report import Culprit, Failure, Report, Tier, data_key
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun
from tests.support.reports import report

kernels: Any = importlib.import_module("fuselight_server.commands.kernels")
"""The module: the package has the verb under the same name."""


@pytest.mark.asyncio
@pytest.mark.parametrize("fails", [True, False])
async def test_a_folder_is_created_for_kernels_but_not_for_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    path = tmp_path / "model.py"
    path.write_text("import torch\n")
    failures = (Failure(Culprit.USER, "exception", "no", "fix"),) if fails else ()

    async def run(_run: TargetRun) -> Report:
        files = {str(path): data_key(path.read_bytes())}
        return report(tier=Tier.KERNELS, failures=failures, files=files)

    monkeypatch.setattr(TargetRun, "run_report", run)
    request = GenerateRequest(
        id=1,
        generation=1,
        target=Target(str(path), "f", "function", 1, compiled=False),
        inputs=InputsPlan(),
        roots=(str(tmp_path),),
    )
    worker: Any = SimpleNamespace(hello=None)
    outcome = CheckOutcome()
    await kernels._cached_or_run(TargetRun(request, worker, Interpreter(""), print), outcome)
    assert outcome.problems == []
    assert (tmp_path / ".fuselight").exists() is not fails
    assert fails or (tmp_path / ".fuselight" / ".gitignore").read_text() == "*\n"
