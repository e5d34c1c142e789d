"""Which break comes first where the trial of a cure removes breaks on other lines, too."""

from __future__ import annotations

import pytest

from fuselight.shared.report import CallCure, CureGoal, CureKind, CureTrial
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.priority import priorities
from tests.support.recompilations import PART, WHOLE
from tests.support.reports import FILE, at, broken, report


@pytest.mark.parametrize(
    ("after", "refused", "lines"),
    [(0, "", [26, 22]), (1, "", [22, 26]), (0, "the line breaks the graph all the same", [22, 26])],
)
def test_a_line_whose_cure_also_removes_the_break_of_another_line_comes_first(
    after: int, refused: str, lines: list[int]
) -> None:
    """Two lines break the graph once each: the first one comes first unless the cure of the other removes both."""
    cure = CallCure(CureKind.SETTING, FILE, 26, value='{"ignore": true}', goal=CureGoal.BREAKS)
    given = report(
        frames=(WHOLE, PART),
        breaks=(broken(at(22)), broken(at(26), compile_id="1/0")),
        trials=(CureTrial(cure, 2, after, refused),),
    )
    assert [item.cost.line for item in priorities(Context.of(given))] == lines
