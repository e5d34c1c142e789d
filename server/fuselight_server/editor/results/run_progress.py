"""How far a run is, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import Tier
from fuselight_server.base.formatting import format_place
from fuselight_server.explain.searches.words import with_best

if TYPE_CHECKING:
    from fuselight_server.execution.runs.queue import Running


def describe(run: Running) -> str:
    """Say how far a run is, as `tracing frame 17, model.py:88`."""
    progress = run.progress
    if progress is None:
        return f"starting {run.job.key.words}"
    if run.job.key.is_timed:
        doing = "Tuning" if run.job.key.tier is Tier.TUNED else "Benchmarking"
        detail = with_best(progress.detail or progress.phase, run.remark)
        return f"{doing} {run.job.key.name or '__main__'}: {detail}"
    words = {
        "import": "importing",
        "build": "building",
        "program": "running",
        "call": "calling",
        "trace": "tracing",
        "report": "reporting",
        "kernels": "generated",
        "assemble": "compiling",
    }
    phase = words.get(progress.phase, progress.phase)
    if progress.sampled:
        return progress.detail
    if progress.detail:
        return f"{phase} {progress.detail}"
    if progress.path and progress.line:
        return f"{phase} {format_place(progress.path, progress.line)}"
    return f"{phase} {run.job.key.words}"
