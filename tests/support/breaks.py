"""Locations and compiles of hand-made reports with graph breaks."""

from __future__ import annotations

from fuselight.shared.report import (
    Compile,
    Frame,
    Graph,
    Outcome,
)
from tests.support.reports import at

FORWARD = at(30, (8, 20), function="forward")
HELPER = at(5, (4, 15), function="helper")


def compiled(identity: str, frame: int, operators: int | None) -> Compile:
    graph = None if operators is None else Graph(operators=operators)
    outcome = Outcome.EMPTY if graph is None else Outcome.COMPILED
    return Compile(id=identity, frame=frame, outcome=outcome, call=0, graph=graph)


FRAMES = (
    Frame("Net.forward", at(20)),
    Frame("Net.forward", at(20), resumes_at=30),
    Frame("other", at(60)),
)
