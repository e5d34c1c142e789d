"""`fuselight ops --format json`: one object, documented in docs/operators.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fuselight.codec import encode
from fuselight_server.kernels.operators import counts, lacks

if TYPE_CHECKING:
    from fuselight.report import OperatorPath, Report
    from fuselight_server.cli.outcome import Outcome


def as_json(outcome: Outcome, opset: str | None) -> str:
    """The operators of every target."""
    return json.dumps(
        {
            "schema": 1,
            "opset": opset,
            "targets": [_target(report) for report in outcome.reports],
            "problems": [{"stage": one.stage, "what": one.what, "why": one.why} for one in outcome.problems],
        },
        indent=2,
    )


def _target(report: Report) -> dict[str, Any]:
    return {
        "path": report.target.path,
        "name": report.target.name or "__main__",
        "line": report.target.line,
        "torch": report.versions.torch,
        "counts": {level: dict(counted.most_common()) for level, counted in counts(report).items()},
        "lacking": [
            {
                "operator": lack.operator,
                "count": lack.count,
                "calls": list(lack.calls),
                "lines": [[place.path, place.line] for place in lack.places],
            }
            for lack in lacks(report)
        ],
        "paths": [_path(path) for path in report.operators],
        "failures": [encode(failure) for failure in report.failures],
        "problems": [encode(problem) for problem in report.problems],
    }


def _path(path: OperatorPath) -> dict[str, Any]:
    return {
        "call": path.call,
        "phase": path.phase.value,
        "compile_id": path.compile_id,
        "count": path.count,
        "stack": [[frame.path, frame.line] for frame in path.stack],
        "aten": path.aten,
        "core": path.core,
        "prims": path.prims,
        "inductor": path.inductor,
        "fallback": path.fallback,
        "lacking": path.lacking,
    }
