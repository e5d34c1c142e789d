"""Record on a GPU what steps allocate: `python -m benchmarks.studies.record_memory_steps FILE [--seconds 170]`.

Writes the file that `memory_on_gpu.py` compares with estimates. Models run in several processes that share the GPU: each
has an allocator of its own. What has no row when the time is over is missing from the file.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies.memory_models import MODELS, Trained
from benchmarks.studies.memory_more_models import MORE
from fuselight.capture.calls.calls import Prepared
from fuselight.worker.memory.steps import Step, Unobserved

EVERY = {**MODELS, **MORE}
PROCESSES = 10
FORMS = ("eager", "compiled")
STEPS = ("inference", "training")


def measured(name: str, step_name: str, form: str) -> dict[str, Any]:
    """One row. Raises what the step raises."""
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
        step.make(whole, Unobserved())
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step.make(whole, Unobserved())
        torch.cuda.synchronize()
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return {"model": name, "step": step_name, "form": form, "bytes": peak, "reserved": reserved}


def record_part(index: int) -> None:
    """Print the rows of every `PROCESSES`-th model, one JSON object a line."""
    for name in list(EVERY)[index::PROCESSES]:
        for step_name in STEPS:
            for form in FORMS:
                try:
                    row = measured(name, step_name, form)
                except Exception as error:  # noqa: BLE001 - of the model, or of the compiler: the others go on
                    words = f"{type(error).__name__}: {error}"[:300]
                    row = {"model": name, "step": step_name, "form": form, "error": words}
                print(json.dumps(row), flush=True)


def main() -> None:
    """Record every model and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--part", type=int, help="print the rows of one process; for this script itself")
    options = parser.parse_args()
    if options.part is not None:
        record_part(options.part)
        return
    options.file.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    parts = [options.file.with_suffix(f".{index}.jsonl") for index in range(PROCESSES)]
    processes = [
        subprocess.Popen(  # noqa: S603 - this script
            [sys.executable, "-m", "benchmarks.studies.record_memory_steps", str(options.file), "--part", str(index)],
            stdout=part.open("w", encoding="utf-8"),
            env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"},
        )
        for index, part in enumerate(parts)
    ]
    for process in processes:
        try:
            process.wait(max(1.0, options.seconds - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines() if line.endswith("}")]
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
    print(f"{len(recording['rows'])} rows, {len(recording['failed'])} failed, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
