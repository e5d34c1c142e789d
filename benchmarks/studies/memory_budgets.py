"""Peaks of `activation_memory_budget` on a GPU, against the estimates: `python -m benchmarks.studies.memory_budgets`.

Without options, each recorded step is estimated at its budget, and `--page` writes docs/results/memory-budgets.md.
With `--record FILE` on a machine with a GPU, the peak and the time of a compiled training step are measured at each
budget, until `--seconds` have passed; FILE grows with each row.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies import memory_on_gpu
from benchmarks.studies.memory_models import MODELS, Trained
from fuselight.adapters.virtual_gpu.budgets import budget_of

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "recordings" / "h200" / "budgets.json"
PAGE = ROOT / "docs" / "results" / "memory-budgets.md"
MIB = 1 << 20
HEAD = """\
# Peaks of `activation_memory_budget` against an H200

<!-- Written by benchmarks/studies/memory_budgets.py. -->

The setting `torch._functorch.config.activation_memory_budget` decides how much a compiled forward may save for its backward.
`fuselight memory --savings` estimates the peak of the whole training step at its points. These are the estimates of torch
{torch} with no visible GPU, for the steps that were measured with torch {recorded} on an {device}
(`torch.cuda.max_memory_allocated`; the time is the median of five steps).

| model | budget | estimated, MiB | measured, MiB | error | measured, ms |
|---|---|---|---|---|---|
"""
TAIL = """
- The peak does not fall with the budget: what is saved does, but what is computed again is alive at once.
- Estimates of another release of torch differ: 2.13.0 cuts other tensors and recomputes in another order, so that its
  estimates of the steps of 2.11.0 were up to 6% too low.
"""
BUDGETS = (1.0, 0.6, 0.3, 0.0, 0.5, 0.1, 0.8)
"""The ones that show the shape of a curve first."""
STEPS = (
    *(("decoder", budget) for budget in BUDGETS),
    *(("attention without SDPA", budget) for budget in (1.0, 0.5, 0.2, 0.0)),
    *(("feed-forward", budget) for budget in (1.0, 0.5, 0.2, 0.0)),
    *(("decoder, checkpointed", budget) for budget in (1.0, 0.5)),
)
_TIMED = 5


def measured(name: str, budget: float) -> dict[str, Any]:
    """The peak above what the process held before, and the median time, of a compiled step on the GPU."""
    torch._dynamo.reset()  # noqa: SLF001 - its name
    gc.collect()
    clear: Any = torch._C._cuda_clearCublasWorkspaces  # noqa: SLF001 - its name
    clear()
    torch.cuda.empty_cache()
    start = torch.cuda.memory_allocated()
    make, make_input = MODELS[name]
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            model, x = make(), make_input()
    finally:
        torch.set_default_dtype(torch.float32)
    settings: Any = torch._functorch.config  # noqa: SLF001 - its name
    with settings.patch(activation_memory_budget=budget):
        whole = Trained(torch.compile(model)).train()  # type: ignore[arg-type]
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)

        def step() -> None:
            whole(x).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        step()
        step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - start
        times = []
        for _ in range(_TIMED):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            step()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
    return {
        "model": name,
        "budget": budget,
        "bytes": peak,
        "reserved": torch.cuda.max_memory_reserved(),
        "ms": statistics.median(times),
    }


def estimated(name: str, budget: float) -> int:
    """Bytes at the peak of a compiled step, estimated without a GPU."""
    torch._dynamo.reset()  # noqa: SLF001 - its name
    with budget_of(budget):
        return memory_on_gpu.estimated(name, training=True, form="compiled")


def record(path: Path, seconds: float) -> None:
    """Measure as many steps as the time allows."""
    started = time.monotonic()
    data: dict[str, Any] = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": []}
    longest = 0.0
    for name, budget in STEPS:
        before = time.monotonic()
        if before - started + longest > seconds:
            break
        try:
            row = measured(name, budget)
        except RuntimeError as error:  # of torch: the row is missing, and the others go on
            row = {"model": name, "budget": budget, "error": str(error)[:200]}
        longest = max(longest, time.monotonic() - before)
        data["rows"].append(row)
        print(row, f"{time.monotonic() - before:.1f} s", flush=True)
        path.write_text(json.dumps(data, indent=1), encoding="utf-8")


def main() -> None:
    """Record, or compare with the estimates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=150.0)
    options = parser.parse_args()
    if options.record is not None:
        record(options.record, options.seconds)
        return
    data = json.loads(RECORDING.read_text(encoding="utf-8"))
    lines, errors = [], []
    for row in data["rows"]:
        if options.model in {None, row["model"]}:
            size = estimated(row["model"], row["budget"])
            errors.append(100 * (size / row["bytes"] - 1))
            lines.append(
                f"| {row['model']} | {row['budget']:g} | {size / MIB:,.1f} | {row['bytes'] / MIB:,.1f} | "
                f"{errors[-1]:+.2f}% | {row['ms']:.1f} |"
            )
            print(lines[-1], flush=True)
    tail = f"\nMedian of the absolute errors: {statistics.median(map(abs, errors)):.2f}%; the largest is "
    tail += f"{max(map(abs, errors)):.1f}%.\n"
    print(tail)
    if options.page:
        head = HEAD.format(torch=torch.__version__, recorded=data["torch"], device=data["device"])
        PAGE.write_text(head + "\n".join(lines) + "\n" + tail + TAIL, encoding="utf-8")


if __name__ == "__main__":
    main()
