"""Edits of a function, what the rules predict of them, and what a trace of the edited text finds."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fuselight.capture.dynamo import Recorder, capture_only, environment, failure_of
from fuselight.shared.report import Report, TargetRef
from fuselight_server.editor.rules import predict
from fuselight_server.explain.findings import findings
from tests.support.recording import report_of_parts

Place = tuple[int, str]
"""Line and code of a finding."""


def run(path: Path, text: str) -> Report:
    """Import a text as the file at `path` and record each of its `CALLS`."""
    path.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "edited"}
    torch._dynamo.reset()
    failures = []
    recorder = Recorder(roots=(str(path.parent),), facts=True)
    with capture_only() as asked, recorder, contextlib.redirect_stdout(io.StringIO()), _no_warnings():
        exec(compile(text, str(path), "exec"), names)  # noqa: S102 - the snippet of this test
        for call in names["CALLS"]:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - a snippet may raise anything: that is a finding
                failures.append(failure_of(error, roots=(str(path.parent),)))
    parts = recorder.parts()
    return report_of_parts(
        parts,
        TargetRef(str(path), "check", 1, "function"),
        failures=(*parts.failures, *failures),
        environment=environment(),
        facts=recorder.facts(),
        fullgraph=asked.fullgraph,
        roots=(str(path.parent),),
    )


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Torch warns of some breaks, and a warning that is an error would be another break."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def breaks_in(report: Report) -> set[Place]:
    """Lines and codes of the breaks in a report."""
    new_findings = findings(report)
    return {
        (finding.span.line, finding.code) for finding in new_findings if re.match("GB|FL404", finding.code)
    }


def predicted(report: Report, path: Path, ran: str, now: str) -> set[Place]:
    """Lines and codes of the predicted findings."""
    return {(finding.span.line, finding.code) for finding in predict(report, str(path), ran, now)}
