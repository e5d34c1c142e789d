"""Record on a GPU what steps allocate: `python -m benchmarks.studies.record_memory_steps FILE [--seconds 170]`.

Writes the file that `memory_on_gpu.py` compares with estimates. Models run in several processes that share the GPU: each
has an allocator of its own. What has no row when the time is over is missing from the file.
`--estimates FILE`: with the rows of `memory_on_gpu.py --rows`, each step is also made with the allocator limited to parts
of its estimate, which is how the verdicts on GPUs of other sizes are checked.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies.memory_models import MODELS, Trained
from benchmarks.studies.memory_more_models import MORE
from fuselight.capture.calls.calls import Prepared
from fuselight.worker.memory.steps import Step, StepObserver

EVERY = {**MODELS, **MORE}
PROCESSES = 10
FORMS = ("eager", "compiled")
STEPS = ("inference", "training")
LIMITS = (0.98, 1.1, 1.2, 1.3, 1.45)
"""Parts of an estimate, until one in which the step runs: 1.1 is what `fits` allows for, below 1 is `does not fit`."""
LEAST = 1 << 30
"""Estimates below it are not limited: no GPU is that small, and there the blocks of 20 MiB of the allocator count."""
LEFT = 64 << 20
"""Bytes that may be reserved still when a limited step begins."""


def measured(name: str, step_name: str, form: str, estimate: int | None = None) -> dict[str, Any]:
    """One row; with an estimate in bytes, also whether the step runs in parts of it. Raises what the step raises."""
    _step_twice(name, step_name, form)
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    row: dict[str, Any] = {
        "model": name,
        "step": step_name,
        "form": form,
        "bytes": peak,
        "reserved": reserved,
    }
    if estimate is not None and estimate >= LEAST:
        ran: dict[str, bool | None] = {}
        while len(ran) < len(LIMITS) and not any(ran.values()):
            part = LIMITS[len(ran)]
            ran[str(part)] = runs_in(name, step_name, form, int(part * estimate))
        if None not in ran.values():
            row["runs_in"] = ran
    return row


def _step_twice(name: str, step_name: str, form: str) -> None:
    """Make a step twice; the statistics of the allocator are those of the second."""
    training = step_name == "training"
    make, make_input = EVERY[name]
    torch._dynamo.reset()  # noqa: SLF001 - its name
    gc.collect()
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - those of the row before
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            model, x = make(), make_input()
    finally:
        torch.set_default_dtype(torch.float32)
    run: Any = torch.compile(model) if form == "compiled" else model
    whole = Trained(run).train(training)
    with torch.set_grad_enabled(training):
        step = Step.of(Prepared(whole, (x,), {}), "adam", training=training)
        step.make(whole, StepObserver())
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step.make(whole, StepObserver())
        torch.cuda.synchronize()


def runs_in(name: str, step_name: str, form: str, limit: int) -> bool | None:
    """Whether a step can be made with `limit` bytes for the allocator from the start; None where the row before is left."""
    torch._dynamo.reset()  # noqa: SLF001 - its name
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - they would count
    torch.cuda.empty_cache()
    if torch.cuda.memory_reserved() > LEFT:
        return None
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info()[1])
    try:
        _step_twice(name, step_name, form)
    except torch.OutOfMemoryError:
        return False
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return True


def _estimates(path: Path | None) -> dict[tuple[str, str, str], int]:
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None else []
    rows = [json.loads(line) for line in lines]
    return {(row["model"], row["step"], row["form"]): row["estimated"] for row in rows}


def record_part(index: int, estimates: dict[tuple[str, str, str], int]) -> None:
    """Print the rows of every `PROCESSES`-th model, one JSON object a line."""
    for name in list(EVERY)[index::PROCESSES]:
        for step_name in STEPS:
            for form in FORMS:
                try:
                    row = measured(name, step_name, form, estimates.get((name, step_name, form)))
                except Exception as error:  # noqa: BLE001 - of the model, or of the compiler: the others go on
                    words = f"{type(error).__name__}: {error}"[:300]
                    row = {"model": name, "step": step_name, "form": form, "error": words}
                print(json.dumps(row), flush=True)


def run_parts(command: Sequence[str], parts: Sequence[Path], seconds: float) -> None:
    """Run `command --part INDEX` for each file at once, with its output there, and end what takes longer."""
    ends = time.monotonic() + seconds
    processes = [
        subprocess.Popen(
            [*command, "--part", str(index)],
            stdout=part.open("w", encoding="utf-8"),
            env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"},
        )
        for index, part in enumerate(parts)
    ]
    for process in processes:
        try:
            process.wait(max(1.0, ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Record every model and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--part", type=int, help="print the rows of one process; for this script itself")
    parser.add_argument("--estimates", type=Path)
    options = parser.parse_args()
    if options.part is not None:
        record_part(options.part, _estimates(options.estimates))
        return
    options.file.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    parts = [options.file.with_suffix(f".{index}.jsonl") for index in range(PROCESSES)]
    command = [sys.executable, "-m", "benchmarks.studies.record_memory_steps", str(options.file)]
    command += ["--estimates", str(options.estimates)] if options.estimates is not None else []
    run_parts(command, parts, options.seconds)
    rows = [
        json.loads(line) for part in parts for line in part.read_text().splitlines() if line.endswith("}")
    ]
    order = list(EVERY)
    rows.sort(key=lambda row: (order.index(row["model"]), row["step"], row["form"] == "compiled"))
    recording = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "measured": "torch.cuda.max_memory_allocated of the second step; Adam over lists of tensors; bfloat16",
        "rows": [row for row in rows if "bytes" in row],
        "failed": [row for row in rows if "error" in row],
    }
    options.file.write_text(json.dumps(recording, indent=1) + "\n", encoding="utf-8")
    for part in parts:
        part.unlink()
    print(
        f"{len(recording['rows'])} rows, {len(recording['failed'])} failed, {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
