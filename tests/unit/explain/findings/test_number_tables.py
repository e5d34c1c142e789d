"""Which lists a number selects from, in the terms of the compiled function's call."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import CureKind, GuardFailure
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.recompilations.number_tables import table_changes
from tests.support.recompilations import again, number
from tests.support.reports import at, report


def tables(failure: GuardFailure, line: str) -> list[str]:
    source = {20: "    def step(self, x, n):", 21: f"        {line}"}
    given = again(failure)
    context = Context.of(report(recompiles=(given,)), read_line=lambda _path, row: source.get(row, ""))
    changes = list(table_changes(context, given, failure))
    assert {item.cure.kind for item in changes} <= {CureKind.STACK}
    assert all(item.needs_trial and item.is_doubtful for item in changes), "a trial decides, and nothing else"
    return [subject for item in changes for subject in item.cure.subjects]


BORN = (at(21, function="step"),)
OWN = number("self.step_index", born=BORN)
INNER = dataclasses.replace(OWN, source="self.plan.at", expression="L['self'].plan.at")
KEY = dataclasses.replace(OWN, source="self.state['at']", expression="L['self'].state['at']")


@pytest.mark.parametrize(
    ("failure", "line", "expected"),
    [
        (OWN, "return x * self.alphas[self.step_index]", ["L['self'].alphas"]),
        (OWN, "return self.a[self.step_index + 1] + self.b[self.step_index]", ["L['self'].a", "L['self'].b"]),
        (INNER, "return x * self.alphas[self.at]", ["L['self'].plan.alphas"]),
        (number("n", born=BORN), "return x * TABLE[n] + x[n]", ["L['TABLE']", "L['x']"]),
        (number("n", born=BORN), "return x * self.alphas[n]", []),
        (OWN, "self.alphas[self.step_index] = x", []),
        (OWN, "return x * self.alphas[self.other]", []),
        (OWN, "return x * make()[self.step_index]", []),
        (KEY, "return x * self.state['at']", []),
    ],
)  # fmt: skip
def test_a_list_is_named_as_the_number_is_reached(
    failure: GuardFailure, line: str, expected: list[str]
) -> None:
    assert sorted(tables(failure, line)) == expected
