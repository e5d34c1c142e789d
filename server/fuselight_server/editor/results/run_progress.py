"""How far a run is, and what runs have found, in words."""

from __future__ import annotations

import collections
from collections.abc import Collection

from fuselight.shared.report import Tier
from fuselight_server.base.formatting import format_count, format_place, format_target
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.execution.runs.queue import Running
from fuselight_server.explain.findings.common.causes import group_by_cause
from fuselight_server.explain.searches.words import with_best

WAITING = "waiting for another run to end"
"""Of a run that has a worker of its own, while another such run is active."""

_DOING = {
    Tier.MEASURED: "Benchmarking",
    Tier.TUNED: "Tuning",
    Tier.ACCURACY: "Accuracy of",
    Tier.MEMORY: "Memory of",
}


def describe(run: Running, title: str = "") -> str:
    """Say how far a run is, as `tracing frame 17, model.py:88`.

    `title`: what a run with a worker of its own is called next to its target, which then need not be named.
    """
    progress = run.progress
    if progress is None:
        return f"starting {run.job.key.words}"
    if run.job.key.has_own_worker:
        detail = with_best(progress.detail or progress.phase, run.remark)
        named = f"{_DOING[run.job.key.tier]} {format_target(run.job.key.name)}"
        return f"{title or named}: {detail}"
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


def results_summary(results: Collection[TargetResult]) -> tuple[str, str]:
    """Say how many findings a folder has, and of how many targets: in a few words, and in detail."""
    count = sum(len(group_by_cause(live.finding for live in result.findings)) for result in results)
    tiers = collections.Counter(result.key.tier for result in results)
    detail = f"{format_count(tiers[Tier.CAPTURE], 'target')} analyzed"
    detail += f", {format_count(tiers[Tier.MEASURED], 'benchmark')}" if tiers[Tier.MEASURED] else ""
    detail += f", {format_count(tiers[Tier.TUNED], 'search', 'searches')}" if tiers[Tier.TUNED] else ""
    detail += f", {format_count(tiers[Tier.ACCURACY], 'comparison')}" if tiers[Tier.ACCURACY] else ""
    detail += f", {format_count(tiers[Tier.MEMORY], 'estimate')} of memory" if tiers[Tier.MEMORY] else ""
    kernels = [result.shown for result in results if isinstance(result, KernelResult)]
    changed = [f"{kernel.key.words}: {kernel.headline}" for kernel in kernels if kernel.headline]
    return format_count(count, "finding"), "; ".join([detail, *changed])
