"""Times and profiles the same calls without Fuselight, for comparison with the benchmark's numbers.

    python -m benchmarks.studies.measured_apart MODEL OUT [--device cuda] [--mode default] [--dtype bfloat16] [--rows 0]

Invariant: nothing of Fuselight is imported. On a GPU the time is `triton.testing.do_bench`'s median, which clears the
cache before each call, and kernels are read from the profiler's own events, by name.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.studies.measured_models import build_model, on

_CALLS = 20
_WARM_MS, _TIMED_MS = 200, 1000


def main() -> int:
    """Measure; the answer is a JSON file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mode", default="default")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rows", type=int, default=0)
    asked = parser.parse_args()
    device = torch.device(asked.device)
    model, args, named = on(device, *build_model(asked.model, asked.dtype, asked.rows))

    def call(*args: Any, **named: Any) -> Any:
        return model(*args, **named)

    compiled = torch.compile(call, mode=None if asked.mode == "default" else asked.mode)
    with torch.no_grad():
        for _ in range(3):
            compiled(*args, **named)
        times = _times(lambda: compiled(*args, **named), device)
        kernels = _kernels(lambda: compiled(*args, **named), device)
    asked.out.write_text(json.dumps({**times, "kernels": kernels}), encoding="utf-8")
    return 0


def _times(call: Callable[[], object], device: torch.device) -> dict[str, float | str]:
    """Microseconds of one call, and by what they were taken."""
    if device.type == "cuda":
        testing: Any = importlib.import_module("triton.testing")
        median = testing.do_bench(call, warmup=_WARM_MS, rep=_TIMED_MS, return_mode="median")
        return {
            "us": float(median) * 1e3,
            "by": "triton.testing.do_bench, median, cache cleared before each call",
        }
    from torch.utils.benchmark import Timer  # noqa: PLC0415

    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    measured = timer.blocked_autorange(min_run_time=_TIMED_MS / 1e3)
    return {"us": measured.median * 1e6, "by": "torch.utils.benchmark, blocked_autorange, median"}


def _kernels(call: Callable[[], object], device: torch.device) -> dict[str, dict[str, float]]:
    """Microseconds and launches of one call by kernel; empty on a CPU, where the profiler knows of operators alone."""
    if device.type != "cuda":
        return {}
    call()
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(_CALLS):
            call()
            torch.cuda.synchronize(device)
    taken: dict[str, list[tuple[float, float]]] = {}
    for event in profiler.events():
        on_device = str(event.device_type) == "DeviceType.CUDA"
        if on_device and not getattr(event, "is_user_annotation", False):
            taken.setdefault(event.name, []).append((event.time_range.start, event.time_range.elapsed_us()))
    return {name: _of_call(sorted(times)) for name, times in taken.items()}


def _of_call(times: list[tuple[float, float]]) -> dict[str, float]:
    """Of launches of one kernel in all calls, by their start: the median of the calls; their mean, if one has more."""
    each, rest = divmod(len(times), _CALLS)
    us = [time for _, time in times]
    sums = [sum(us[at : at + each]) for at in range(0, len(us), each)] if not rest else [sum(us) / _CALLS]
    return {"us": statistics.median(sums), "count": len(us) / _CALLS}


if __name__ == "__main__":
    raise SystemExit(main())
