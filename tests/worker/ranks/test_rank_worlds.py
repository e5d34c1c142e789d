"""Programs as each rank of a world without a network, in the shared worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.report import Report, World, innermost_user_frame
from fuselight.shared.world_plan import world_plan
from fuselight_server.explain.findings import findings
from tests.support.live_worker import LiveWorker
from tests.support.rank_programs import PROGRAMS

pytestmark = pytest.mark.torch


def run_program(live: LiveWorker, source: str, ranks: int, mesh: str | None = None, **options: Any) -> Report:
    """The report of a program as several ranks."""
    request = live.request(source, "", **options)
    return live.report(replace(request, world=world_plan(ranks, mesh)))


def world_of(report: Report) -> World:
    assert report.world is not None, report.failures
    return report.world


def calls(world: World, roots: tuple[str, ...], group: int = 0) -> list[tuple[str, int, int | None, bool]]:
    """Kind, bytes, line of the user's file, and whether a graph calls it."""
    lines = []
    for call in world.groups[group].collectives:
        place = innermost_user_frame(call.stack, roots)
        lines.append((call.kind, call.bytes, place.line if place else None, call.in_graph))
    return lines


def test_tensor_parallelism_in_a_mesh(live: LiveWorker) -> None:
    source = PROGRAMS["tensor_parallel"]
    report = run_program(live, source, 2, "model=2")
    world = world_of(report)
    assert report.failures == ()
    assert world.ran == (0, 1)
    assert len(world.groups) == 1, [finding.title for finding in findings(report)]
    assert len(report.compiles) == 1
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "self.down(" in text)
    # One all-reduce in the forward graph, for the rows, and one in the backward graph, for the columns.
    assert [call for call in calls(world, report.roots) if call[3]] == [
        ("all_reduce", 4 * 16 * 4, line, True),
        ("all_reduce", 4 * 16 * 4, line, True),
    ]
    assert [call.is_backward for call in world.groups[0].collectives if call.in_graph] == [False, True]
    assert not [finding for finding in findings(report) if finding.code.startswith("FL9")]
    assert any(note.kind == "world_values" for note in report.notes)
