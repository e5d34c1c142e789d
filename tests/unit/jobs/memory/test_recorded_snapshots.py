"""Snapshots of an H200 (tests/recordings/record_memory.py), against what the allocator itself counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.jobs.memory.files import read_memory
from fuselight_server.jobs.memory.model import DeviceMemory, StepMark, TensorOrigin
from tests.support.command import run_cli

FOLDER = Path(__file__).parents[3] / "recordings" / "memory" / "h200"
SOURCE = FOLDER.parents[1]
TRUTH: dict[str, Any] = json.loads((FOLDER / "truth.json").read_text(encoding="utf-8"))
NAMES = [name for name, truth in TRUTH.items() if isinstance(truth, dict)]
LINES = (SOURCE / "memory_jobs.py").read_text(encoding="utf-8").splitlines()


def device_of(name: str) -> DeviceMemory:
    read = read_memory(str(FOLDER / f"{name}.pickle.gz"))
    assert read.note == ""
    assert read.process is not None
    (device,) = read.process.devices
    return device


def line(text: str) -> int:
    (number,) = (number for number, source in enumerate(LINES, 1) if text in source)
    return number


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_that_of_the_allocator(name: str) -> None:
    device, truth = device_of(name), TRUTH[name]
    assert {
        "allocated": device.end.allocated,
        "peak": device.peak.allocated,
        "reserved": device.end.reserved,
        "inactive_split": device.free.between_tensors,
        "events": device.events,
    } == {key: value for key, value in truth.items() if key != "requested"}
    for moment in (device.peak, device.end):
        assert sum(row.bytes for row in moment.held) == moment.allocated


@pytest.mark.parametrize(("name", "steps"), [("clean", 5), ("leak", 7), ("compiled", 3), ("rank0", 0)])
def test_only_a_leak_grows_by_more_than_its_losses(name: str, steps: int) -> None:
    growth = device_of(name).growth
    if not steps:
        assert growth is None  # of three steps, two are left without the first
        return
    assert growth is not None
    assert (growth.mark, growth.steps) == (StepMark.OPTIMIZER, steps)
    grown = {item.held.location and item.held.location.line: item.held.bytes for item in growth.lines}
    losses = {line("loss = net(x"): 512 * steps}
    assert grown == (losses | {line("self.seen.append("): (1 << 20) * steps} if name == "leak" else losses)


def test_compiled_code_has_the_lines_of_its_operators_also_in_the_backward() -> None:
    held = {row.location and row.location.line: row for row in device_of("compiled").peak.held}
    for text in ("hidden = functional.gelu", "result: torch.Tensor = x +"):
        assert held[line(text)].is_compiled
    without = sum(row.bytes for row in held.values() if row.origin is TensorOrigin.NO_STACK)
    assert without < 0.05 * device_of("compiled").peak.allocated


def test_the_findings_are_on_the_lines_that_cause_them() -> None:
    run = run_cli("open", str(FOLDER), "--source", str(SOURCE), "--format", "json")
    data = json.loads(run.stdout)
    assert {(item["code"], item["line"]) for item in data["findings"]} == {
        ("FL951", line("self.seen.append(")),
        ("FL952", line("hidden = functional.gelu")),
        ("FL953", line("blocks = [")),
    }
    (job,) = data["jobs"]
    most = {
        item["location"]["line"]: item["most"] for item in job["memory"]["differences"] if item["location"]
    }
    assert most[line("hidden = functional.gelu")] == 2 * (67108864)
