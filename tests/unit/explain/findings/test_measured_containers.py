"""Advice for a container outside of the function, of which the function reads the length alone."""

from __future__ import annotations

import pytest

from fuselight.shared.report import GuardCause
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, READ, again, failed
from tests.support.reports import report


@pytest.mark.parametrize(
    ("line", "is_measured"),
    [
        ("x = x / (1 + len(self.log.rows))", True),
        ("x = x / (1 + len(self.log.rows)) + norm(self.log.rows)", False),
        ("for row in self.log.rows: x = x + row", False),
        ("x = x + len(self.log.rows[0])", False),
        ("n = len(self.log.rows); self.log.rows.append(n)", False),
    ],
)
@pytest.mark.parametrize("cause", [GuardCause.LENGTH, GuardCause.KEYS])
def test_the_length_is_passed_where_nothing_else_is_read(
    line: str, cause: GuardCause, *, is_measured: bool
) -> None:
    lines = {
        DEF.line: "def forward(self, x):",
        DEF.line + 1: "    y = x",
        READ.line: f"    {line}",
        READ.line + 1: "    return x",
    }
    failure = failed("len(self.log.rows) was 1, now 2", source="self.log.rows", cause=cause)
    given = report(recompiles=(again(failure),))
    (finding,) = (
        item
        for item in findings(given, read_line=lambda _path, number: lines.get(number))
        if item.code == "FL201"
    )
    assert finding.hints[0].startswith("Compute `len(self.log.rows)` outside") is is_measured, finding.hints
    assert finding.is_expected is False or not is_measured
