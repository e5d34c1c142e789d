"""The names of what a graph break carries over, also of an attribute, an item or an element of it."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    CallCure,
    Compile,
    CureKind,
    GuardCause,
    Outcome,
    Recompile,
    Report,
    TrialCounts,
)
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.recompilations import DEF, PART, again, failed
from tests.support.reports import at, broken, report

METHOD = "    self.stats.add(level.mean().item())"
"""What waits for the number is the bound method."""
TABLE = "    rate = float(TABLE[step])"


def changed(source: str, text: str, part: str, carried: int, difference: str = "was 3, now 4") -> Report:
    """The report of a part that was compiled again for what the break at `part` of the line carried over."""
    start = text.index(part)
    failure = failed(f"{source} {difference}", "EQUALS_MATCH", source, born=(), cause=GuardCause.NUMBER)
    ids = ("0/0", "0/1")
    return report(
        frames=(dataclasses.replace(PART, carried=carried),),
        compiles=tuple(Compile(name, 0, Outcome.COMPILED) for name in ids),
        breaks=(broken(at(25, (start, start + len(part))), gb="GB0124"),),
        recompiles=(again(failure, compile_id="0/1"),),
        trial=TrialCounts(calls=2, changed=1),
    )


@pytest.mark.parametrize(
    ("source", "text", "part", "carried", "name"),
    [
        ("___stack0.item()", TABLE, "TABLE[step]", 1, "the value of `TABLE[step]` on line 25"),
        ("___stack0.item()", TABLE, "float(TABLE[step])", 1, "rate"),
        ("___stack0.count", TABLE, "TABLE[step]", 1, "count of the value of `TABLE[step]` on line 25"),
        ("___stack0.count", TABLE, "float(TABLE[step])", 1, "rate.count"),
        ("___stack0.w[1].size(0)", TABLE, "TABLE[step]", 1, "w[1].size(0) of the value of `TABLE[step]` on line 25"),
        ("___stack0.__self__.seen", METHOD, "level.mean().item()", 2, "self.stats.seen"),
        ("___stack0.__self__", METHOD, "level.mean().item()", 2, "self.stats"),
        ("___stack0.__self__.seen", "    (lambda: 1)", "1", 3, "seen of a value on line 25"),
        ("___stack0[1].item()", "    (lambda: 1)", "1", 3, "item 1 of a value on line 25"),
        ("___stack0", "    (lambda: 1)", "1", 3, "a value on line 25"),
    ],
)  # fmt: skip
def test_what_is_read_of_a_carried_value_is_named_after_the_value(
    source: str, text: str, part: str, carried: int, name: str
) -> None:
    given = changed(source, text, part, carried)
    lines = {24: "def forward(self, step):", 25: text}
    shown = findings(given, read_line=lambda _path, line: lines.get(line, "") if line < 30 else None)
    (finding,) = (item for item in shown if item.code == "FL201")
    assert finding.title == f"recompiled: {name} was 3, now 4"


def test_what_still_compiles_in_a_trial_is_named_as_in_findings() -> None:
    part = "level.mean().item()"
    cured = changed("___stack0.__self__.seen", METHOD, part, 2)
    without = dataclasses.replace(cured, recompiles=tuple[Recompile, ...]())
    cure = CallCure(CureKind.DYNAMIC, DEF.path, DEF.line, value="True")
    trial = trial_of(cure, without, cured, lambda *_: METHOD)
    assert trial.refused.endswith("with it, torch compiles again because self.stats.seen was 3, now 4")
    assert "a value on line 25" in trial_of(cure, without, cured).refused, "the text is not known"
