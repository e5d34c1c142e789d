"""The nodes of the report's tree: of a target and all below it, and of a job.

Invariant: each node with a line jumps to where that line is now. A target's node has the same children in the same
order as long as the same kinds of facts are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import Tier
from fuselight.shared.report.visible import visible
from fuselight_server.base.formatting import format_target
from fuselight_server.base.thresholds import Thresholds
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.accuracy_nodes import accuracy_node
from fuselight_server.editor.presenters.capture_nodes import (
    CaptureNodeMaker,
    break_nodes,
    failure_nodes,
    finding_nodes,
    first_nodes,
    forecast_nodes,
    frame_nodes,
    input_nodes,
    not_compiled_nodes,
    note_nodes,
    recompilation_nodes,
    refused_nodes,
)
from fuselight_server.editor.presenters.kernel_nodes import kernel_node
from fuselight_server.editor.presenters.memory_nodes import memory_node
from fuselight_server.editor.presenters.tree_nodes import NodeMaker, identified
from fuselight_server.editor.results.accuracy import AccuracyResult
from fuselight_server.editor.results.accuracy_words import accuracy_summary
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.jobs import JobResult
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.memory import MemoryResult
from fuselight_server.editor.results.memory_words import memory_summary
from fuselight_server.editor.results.refused_fixes import RefusedFix
from fuselight_server.editor.results.run_ends import NOUNS, RunEnds
from fuselight_server.editor.results.snapshot import ResultsByTier
from fuselight_server.editor.results.target_lens import summary
from fuselight_server.editor.results.target_result import Results
from fuselight_server.explain.benchmarks.words import failed
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.failures import short_end


@dataclass(frozen=True)
class ReportFixes:
    """What a report says of the fixes of its target."""

    first: str = ""
    """The fix of the line to fix first that has passed verification."""
    refused: tuple[RefusedFix, ...] = ()


def end_nodes(results: Results, ends: RunEnds, result: CaptureResult, make: NodeMaker) -> list[ReportNode]:
    """Make one node for each run of a target that ended without a result, or with a failure, but for the capture's."""
    nodes = []
    for tier, noun in NOUNS.items():
        key = replace(result.key, tier=tier)
        end, known = ends.get(key), results.get(key)
        if end is not None:
            label = end.short(tier)
            nodes.append(
                make.node("ended", f"{label[:1].upper()}{label[1:]}", "circle-slash", description=end.step)
            )
        for failure in known.report.failures if noun and known is not None else ():
            if failure not in result.report.failures:
                label = f"{noun[:1].upper()}{noun[1:]}: {short_end(failure)}"
                nodes.append(make.node("failure", label, "error", description=failed(failure)))
    return nodes


def job_node(job: JobResult, view: convert.Client) -> ReportNode | None:
    """Make the node of a job's rank 0, or of its first process; None where no file of the job is here."""
    if job.capture is None:
        return None
    node = target_node(job.capture, view, job.kernels)
    others = len(job.opened.processes) - 1
    more = f"\n{others:,} further processes: see the page of the job" if others > 0 else ""
    limits = "\nFrom logs: what a trace cannot know is below `Not available`."
    return {
        **node,
        "icon": "server-process",
        "contextValue": "job",
        "tooltip": f"{node['tooltip']}{visible(more + limits)}",
    }


def target_node(
    result: CaptureResult,
    view: convert.Client,
    kernels: KernelResult | None = None,
    predicted: Sequence[ReportNode] = (),
    fixes: ReportFixes = ReportFixes(),
    *,
    accuracy: AccuracyResult | None = None,
    memory: MemoryResult | None = None,
) -> ReportNode:
    """Make the node of one target and all below it; `predicted` is what its last run could not know."""
    report, key = result.report, result.key

    def read_line(path: str, line: int) -> str | None:
        # After an edit the lines are not those that ran: of those without a break, the text is left out.
        now = None if result.stale else view.read_line(path, line)
        return result.broken_lines.get((path, line), now)

    context = Context.of(report, Thresholds(), read_line)
    make = CaptureNodeMaker(view, result, context)
    name = format_target(key.name)
    start = next(
        (frame.location for frame in report.frames if frame.location.line >= report.target.line), None
    )
    counted, stopped = recompilation_nodes(make)
    children = [
        *first_nodes(make, fixes.first),
        *predicted,
        *input_nodes(make, report),
        *make.group("findings", "Findings, costliest first", "checklist", finding_nodes(make, kernels)),
        *make.group("refusals", "Fixes not offered", "circle-slash", refused_nodes(make, fixes.refused)),
        *make.changes("changes", result.changes_now),
        *([accuracy_node(accuracy, view)] if accuracy is not None else []),
        *([memory_node(memory, view)] if memory is not None else []),
        *([kernel_node(kernels, view)] if kernels is not None else []),
        *make.group("frames", "Frames", "symbol-function", frame_nodes(make, report)),
        *make.group("breaks", "Graph breaks", "debug-disconnect", break_nodes(make, report)),
        *make.group("recompilations", "Recompilations", "sync", counted),
        *make.group("stopped", "Stopped by the recompile limit", "stop-circle", stopped),
        *forecast_nodes(make),
        *make.group("eager", "Not compiled", "circle-slash", not_compiled_nodes(make, report)),
        *make.group("failures", "Failures", "error", failure_nodes(make, report)),
        *make.group("notes", "Notes", "info", note_nodes(make, report)),
        *make.group("problems", "Not available", "question", make.problems(report)),
    ]
    words = summary(result)
    if accuracy is not None and report.tier is Tier.ACCURACY:
        words = accuracy_summary(accuracy)
    elif memory is not None and report.tier is Tier.MEMORY:
        words = memory_summary(memory)
    versions = f"torch {report.versions.torch}, Python {report.versions.python}, {report.device}"
    node = make.node(
        "target",
        name,
        "history" if result.stale else "symbol-class",
        description=words,
        tooltip=f"{name} in {key.path}\n{words}\n{versions}",
        where=make.now(start) if start and start.path == report.target.path else None,
        children=children,
    )
    node["target"] = {"uri": view.uri_of(key.path), "target": key.name}
    return identified(node, f"{key.path}::{key.name}")


@dataclass(frozen=True)
class ShownTarget:
    """The results of one target that its report shows."""

    capture: CaptureResult
    kernels: KernelResult | None = None
    accuracy: AccuracyResult | None = None
    memory: MemoryResult | None = None


def with_further_results(
    shown: Iterable[tuple[CaptureResult, KernelResult | None]], known: ResultsByTier, path: str | None
) -> list[ShownTarget]:
    """Return `shown_results` with the comparisons of their results, and with the estimates of their memory.

    The report of either serves as the capture if there is none.
    """
    comparisons = {key.as_capture: result for key, result in known.comparisons.items()}
    estimates = {key.as_capture: result for key, result in known.estimates.items()}
    every = [
        ShownTarget(capture, kernels, comparisons.get(capture.key), estimates.get(capture.key))
        for capture, kernels in shown
    ]
    captured = {target.capture.key for target in every}
    for key, result in {**estimates, **comparisons}.items():
        if key not in captured and (path is None or key.path == path or path in result.depends):
            capture = capture_result_of(key, result.generation, result.shown.report, ())
            capture = replace(capture, places=result.shown.places, stale=result.shown.stale)
            every.append(ShownTarget(capture, None, comparisons.get(key), estimates.get(key)))
    return every


def shown_results(known: ResultsByTier, path: str | None) -> list[tuple[CaptureResult, KernelResult | None]]:
    """Return the results of the targets that a file is part of (None: of all targets), by target.

    The report of kernels, or of a benchmark or a search that failed, serves as the capture if there is none.
    """
    kernels = {replace(key, tier=Tier.CAPTURE): kernel_result for key, kernel_result in known.kernels.items()}
    captures = known.captures
    for key, result in known.results.items():
        capture = replace(key, tier=Tier.CAPTURE)
        if capture not in captures and (isinstance(result, KernelResult) or result.report.failures):
            capture_result = capture_result_of(capture, result.generation, result.report, ())
            captures[capture] = replace(capture_result, places=result.places, stale=result.stale)
    return [
        (result, kernels.get(key))
        for key, result in sorted(captures.items(), key=lambda item: (item[0].path, item[0].name))
        if path is None or key.path == path or path in result.depends
    ]
