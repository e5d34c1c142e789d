"""Estimated memory against that of a GPU, which was recorded: `python -m benchmarks.studies.memory_on_gpu [--page]`.
`--processes 2`: how many estimate at once. `--all`: also the models of memory_more_models.py, which takes long.

Nothing is measured here: tests/recordings/h200/memory.json has `torch.cuda.max_memory_allocated` of each step, of torch
2.11.0+cu130 on an NVIDIA H200. `--page` writes docs/results/memory.md.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies.memory_models import MODELS, Trained
from benchmarks.studies.memory_more_models import MORE
from fuselight.adapters.torch_api import settings
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture.calls.calls import Prepared
from fuselight.shared.devices import find
from fuselight.shared.report import MemoryUse
from fuselight.worker.memory.forms import eager_form
from fuselight.worker.memory.peaks import StepRecord
from fuselight.worker.memory.steps import Step, Unobserved

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "recordings" / "h200" / "memory.json"
PAGE = ROOT / "docs" / "results" / "memory.md"
MIB = 1 << 20
HEAD = """\
# Estimated memory against an H200

<!-- Written by benchmarks/studies/memory_on_gpu.py. -->

`fuselight memory` estimates on a machine without a GPU what a step allocates. These are its estimates for an H200, from fake
tensors of the CPU (torch {torch}), beside `torch.cuda.max_memory_allocated` of the same steps on an H200, which was recorded
with torch 2.11.0+cu130. The models have 0.4 to 530 million parameters in bfloat16; a training step is forward, backward and Adam.

| model | step | form | estimated, MiB | measured, MiB | error | seconds |
|---|---|---|---|---|---|---|
"""
TAIL = """
Median of the absolute errors: {median:.2f}%; without convolutions the largest is {most:.1f}%.

- Convolutions in eager mode: cuDNN's workspaces, which it chooses when it runs, are not in the estimate.
- The checkpointed decoder, compiled, for training: on the GPU it needs more than is estimated. The cause is not known. The graph
  that is made without a GPU has the states of random numbers in an older form, as the newer one reads them from a GPU.
- Every byte at each peak is on a line or in a named category.
"""
# The section on further models in the page is written by hand until all of their steps are compared.


@dataclass(frozen=True)
class Row:
    """One step."""

    model: str
    step: str
    form: str
    estimated: int
    measured: int
    seconds: float

    @property
    def error(self) -> float:
        """As a part of what was measured."""
        return self.estimated / self.measured - 1


def rows(processes: int) -> Iterator[Row]:
    """Estimate each recorded step."""
    recorded = json.loads(RECORDING.read_text(encoding="utf-8"))["rows"]
    if "--all" not in sys.argv:
        recorded = [record for record in recorded if record["model"] in MODELS]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(_row, recorded)


def _row(record: dict[str, Any]) -> Row:
    started = time.perf_counter()
    torch.set_num_threads(1)
    torch._dynamo.reset()  # noqa: SLF001 - its name
    size = estimated(record["model"], training=record["step"] == "training", form=record["form"])
    seconds = time.perf_counter() - started
    return Row(record["model"], record["step"], record["form"], size, record["bytes"], seconds)


def estimated(name: str, *, training: bool, form: str) -> int:
    """Bytes at the peak of a step."""
    device, (make, make_input) = find("h200"), {**MODELS, **MORE}[name]
    with settings.fake_tensors(), torch.set_grad_enabled(training):
        torch.set_default_dtype(torch.bfloat16)
        try:
            model, x = make(), make_input()
        finally:
            torch.set_default_dtype(torch.float32)
        backend = ReplayBackend(device)
        run: Any = torch.compile(model, backend=backend) if form == "compiled" else model
        whole = Trained(run).train(training)
        step = Step.of(Prepared(whole, (x,), {}), "adam", training=training)
        with eager_form(device) if form == "eager" else contextlib.nullcontext():
            step.make(whole, Unobserved())
            record = StepRecord.of(step, device, (str(ROOT / "benchmarks"),), backend.origin_of_buffer)
            with record.tracker:
                step.make(whole, record)
    peak = record.peak(device)
    existing = {MemoryUse.PARAMETER, MemoryUse.BUFFER, MemoryUse.INPUT, MemoryUse.OPTIMIZER, MemoryUse.LIBRARY}
    if any(row.location is None and row.use not in existing for row in peak.held):
        raise ValueError(f"{name}, {form}: a part of the peak has no line")
    if sum(row.bytes for row in peak.held) != peak.bytes:
        raise ValueError(f"{name}, {form}: the parts of the peak do not add up to it")
    return peak.bytes


def main() -> None:
    """Print the rows, and write the page if asked."""
    every, lines = [], []
    processes = int(sys.argv[sys.argv.index("--processes") + 1]) if "--processes" in sys.argv else 2
    for row in rows(processes):
        every.append(row)
        lines.append(
            f"| {row.model} | {row.step} | {row.form} | {row.estimated / MIB:,.1f} | {row.measured / MIB:,.1f} | "
            f"{row.error:+.2%} | {row.seconds:.1f} |"
        )
        print(lines[-1], flush=True)
    median = 100 * statistics.median(abs(row.error) for row in every)
    most = 100 * max(abs(row.error) for row in every if row.model != "convolutions")
    tail = TAIL.format(median=median, most=most)
    print(tail)
    if "--page" in sys.argv:
        PAGE.write_text(HEAD.format(torch=torch.__version__) + "\n".join(lines) + "\n" + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
