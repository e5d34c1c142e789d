"""`fuselight kernels --format json`: one object, documented in docs/kernels.md."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from fuselight.codec import encode
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.cli.outcome import NO_DETAILS
from fuselight_server.kernels import Place, costs_by_line, fold
from fuselight_server.kernels.fusion import why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight.report import GeneratedGraph, Report, Stack
    from fuselight_server.cli.outcome import Details, Outcome
    from fuselight_server.kernels import Folded


def as_json(outcome: Outcome, details: Details = NO_DETAILS, *, pairs: Sequence[tuple[int, int]] = ()) -> str:
    """The kernels of every target."""
    return json.dumps(
        {
            "schema": 1,
            "targets": [
                {
                    **_target(report, outcome, details),
                    "why": _why(report, pairs),
                }
                for report in outcome.reports
            ],
            "problems": [{"stage": one.stage, "what": one.what, "why": one.why} for one in outcome.problems],
        },
        indent=2,
    )


def _target(report: Report, outcome: Outcome, details: Details) -> dict[str, Any]:
    return {
        "path": report.target.path,
        "name": report.target.name or "__main__",
        "line": report.target.line,
        "device": encode(report.target_device),
        "graphs": [_graph(graph, report, details) for graph in report.generated],
        "lines": [
            {
                "path": cost.place.path if cost.place else None,
                "line": cost.place.line if cost.place else None,
                "kernels": len(cost.launches),
                "bytes": float(cost.bytes),
                "flops": float(cost.flops),
                "estimate_us": float(cost.us),
                "fused_with": [[place.path, place.line] for place in sorted(cost.fused_with)],
            }
            for cost in costs_by_line(report)
        ],
        "findings": [finding_as_json(one, outcome.sources) for one in outcome.of_kernels(report)],
        "failures": [encode(failure) for failure in report.failures],
        "problems": [encode(problem) for problem in report.problems],
    }


def _graph(graph: GeneratedGraph, report: Report, details: Details) -> dict[str, Any]:
    out: dict[str, Any] = {
        "compile_id": graph.compile_id,
        "phase": graph.phase.value,
        "failure": graph.failure,
        "kernels": [_kernel(one, report, details) for one in fold(graph, report.roots)],
        "saved": [encode(tensor) for tensor in graph.saved],
        "saved_bytes": sum(tensor.bytes for tensor in graph.saved),
        "recomputed": [encode(one) for one in graph.recomputed],
        "refusals": [encode(refusal) for refusal in graph.refusals],
        "handed": [encode(one) for one in graph.handed],
        "repeated": encode(graph.repeated),
        "cudagraph_skips": [encode(skip) for skip in graph.cudagraph_skips],
    }
    if details.graphs:
        out["joint"] = report.texts.get(graph.joint_key or "")
        out["aten"] = report.texts.get(graph.aten_key or "")
    return out


def _kernel(one: Folded, report: Report, details: Details) -> dict[str, Any]:
    kernel = one.kernel
    out: dict[str, Any] = {
        "name": kernel.name,
        "kind": kernel.kind.value,
        "launch": kernel.launch,
        "count": one.count,
        "call": kernel.call,
        "lines": [[place.path, place.line] for place in one.places],
        "operators": [
            {"name": operator.name, "original": operator.original, "stack": _stack(operator.stack)}
            for operator in kernel.operators
        ],
        "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written,
        "flops": kernel.flops,
        "dtype": kernel.dtype,
        "estimate_us": kernel.estimate_us,
        "bound": kernel.bound,
        "copies": kernel.copies,
        "candidates": list(kernel.candidates),
    }
    if details.source:
        out["source"] = report.texts.get(kernel.text_key or "")
    assembled = report.assembled.get(kernel.text_key or "")
    if assembled is not None:
        out["resources"] = encode(dataclasses.replace(assembled, listings={}))
        if details.asm is not None:
            listing = assembled.listings.get(details.asm)
            out["asm"] = None if listing is None else listing.text
    return out


def _why(report: Report, pairs: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    out = []
    for first, second in pairs:
        found = why(report, Place(report.target.path, first), Place(report.target.path, second))
        reasons = [
            {"words": words, "reason": reason, "count": count} for words, reason, count in found.reasons
        ]
        out.append(
            {"lines": [first, second], "verdict": found.verdict, "kernels": found.kernels, "reasons": reasons}
        )
    return out


def _stack(stack: Stack) -> list[list[Any]]:
    return [[frame.path, frame.line] for frame in stack]
