"""The CPU timer is imported before user code runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.measure import timing
from fuselight.measure.machine import conditions
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.worker.timed.configuration import MeasureCalls

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_timer_is_imported_for_the_device_that_was_chosen(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU may be present but not used: for a request for the CPU, or if no driver answers."""
    imported: list[str] = []
    monkeypatch.setattr(conditions, "choose", lambda _: torch.device(device))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr("fuselight.worker.timed.configuration.present_device", lambda _: None)
    monkeypatch.setattr(timing, "importlib", SimpleNamespace(import_module=imported.append))
    state: Any = SimpleNamespace(job=SimpleNamespace(plan=MeasurePlan(device=device)))
    channel: Any = None
    with MeasureCalls("eager", channel, None).compiling(state):
        assert imported == (["torch.utils.benchmark"] if device == "cpu" else [])
