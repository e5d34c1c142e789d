"""Elements that torch names by their position have the name of the line that reads them."""

from __future__ import annotations

import pytest

from fuselight.shared.report import GuardCause
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, READ, again, failed
from tests.support.reports import report

STEP = "self.state[list(self.state)[3]]['step']"
ENTRY = "self.scales[list(self.scales)[1]]"


@pytest.mark.parametrize(
    ("source", "line", "name"),
    [
        (STEP, "s['step'] += 1", "s['step']"),
        (STEP, "x = x * self.state[p]['step']", "self.state[p]['step']"),
        (STEP, "x = x + s['step'] - t['step']", STEP),
        (ENTRY, "x = x * self.scales[name]", "self.scales[name]"),
        ("opt.state[list(opt.state)[0]]", "x = x * self.state[p]", "self.state[p]"),
        (ENTRY, "x = x * scale", "self.scales[key]"),
        (ENTRY.replace("scales", "others"), "x = x * other", "value 1 of self.others"),
        ("list(self.seen)[0].n", "x = x + item.n", "item.n"),
        ("list(self.seen)[0]", "x = x + item.n", "list(self.seen)[0]"),
    ],
)
def test_an_element_has_the_name_of_its_line(source: str, line: str, name: str) -> None:
    lines = {
        DEF.line: "def forward(self, x):",
        DEF.line + 1: "    for key, scale in self.scales.items():",
        READ.line: f"        {line}",
        READ.line + 1: "    return x",
    }
    failure = failed(f"{source} was 1, now 2", source=source, cause=GuardCause.NUMBER)
    given = report(recompiles=(again(failure, failure),))
    (finding,) = (
        item
        for item in findings(given, read_line=lambda _path, number: lines.get(number))
        if item.code == "FL201"
    )
    assert finding.title == f"recompiled: {name} was 1, now 2"
    assert "Other failed guards" not in finding.message


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("type(self).calls += 1", "type(self).calls"),
        ("self.__class__.calls += 1", "self.__class__.calls"),
        ("x = x * self.calls", "self.calls"),
        ("x = x * self.calls + type(self).calls", "self.calls"),
    ],
)
def test_an_attribute_of_a_class_has_the_name_of_its_line(line: str, name: str) -> None:
    text = ["def forward(self, x):", "    y = x", f"    {line}", "    return x"]
    lines = {DEF.line + number: part for number, part in enumerate(text)}
    calls = failed(
        "self.calls was 1, now 2",
        source="self.calls",
        expression="type(L['self']).calls",
        cause=GuardCause.NUMBER,
    )
    shown = findings(report(recompiles=(again(calls),)), read_line=lambda _path, number: lines.get(number))
    assert [item.title for item in shown if item.code == "FL201"] == [f"recompiled: {name} was 1, now 2"]
