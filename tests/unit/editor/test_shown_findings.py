"""One entry for each finding, whoever found it."""

from __future__ import annotations

from dataclasses import replace

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.editor.presenters.convert import Client, shown_diagnostic
from fuselight_server.editor.results.predictions import gone_after_edit
from fuselight_server.editor.results.shown_findings import ShownFinding, each_once

FOUND = Finding(
    "FL201",
    Severity.WARNING,
    "recompiled: `x.size(0)` was 3, now 5",
    "Why.",
    Span("/w/net.py", 7, 4, 7, 20),
    Tier.CAPTURE,
    "step",
    "",
    "",
    subject="size of x",
)
HERE = ShownFinding(FOUND)


def of_job(name: str, **changes: object) -> ShownFinding:
    finding = replace(FOUND, **changes)  # type: ignore[arg-type]
    return ShownFinding(finding, label=f"job {name}", source=f"Fuselight job {name}")


def listed(*items: ShownFinding) -> list[tuple[str, str]]:
    view = Client("utf-16", lambda _path, _line: "    x = step(x)\n", lambda path: f"file://{path}")
    shown = [shown_diagnostic(item, view) for item in each_once(items)]
    return [(item.source or "", item.message) for item in shown]


def test_other_values_of_the_same_thing_are_the_same_finding() -> None:
    other = of_job("a", title="recompiled: `x.size(0)` was 64, now 32")
    assert listed(HERE, other) == [("fuselight, job a", FOUND.title)]


def test_other_things_are_other_findings() -> None:
    others = (
        of_job("a", subject="size of y"),
        of_job("a", code="FL202"),
        of_job("a", span=Span("/w/net.py", 8, 4, 8, 20)),
    )
    assert [source for source, _ in listed(HERE, *others)] == ["fuselight", *["Fuselight job a"] * 3]


def test_a_source_with_two_of_a_kind_on_a_line_keeps_both() -> None:
    second = replace(FOUND, span=Span("/w/net.py", 7, 24, 7, 40))
    pair = (of_job("a", span=second.span), of_job("a"))
    assert [item.finding.span for item in each_once(pair)] == [second.span, FOUND.span]
    entries = each_once([HERE, ShownFinding(second), *pair])
    assert [(item.finding.span, [other.finding.span for other in item.others]) for item in entries] == [
        (FOUND.span, [FOUND.span]),
        (second.span, [second.span]),
    ]


def test_a_source_without_columns_has_the_same() -> None:
    assert listed(HERE, of_job("a", span=Span("/w/net.py", 7))) == [("fuselight, job a", FOUND.title)]


def test_a_finding_that_a_prediction_no_longer_has_is_the_same_finding() -> None:
    gone = ShownFinding(gone_after_edit(replace(FOUND, subject="")))
    ((source, message),) = listed(gone, of_job("a", subject=""))
    assert source == "fuselight, job a"
    assert message.startswith("gone after your edit")


def test_of_many_sources_three_are_named_beside_the_first() -> None:
    assert listed(*(of_job(name) for name in "abcdef")) == [
        ("Fuselight job a, job b, job c, job d, 2 more", FOUND.title)
    ]
