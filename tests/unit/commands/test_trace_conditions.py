"""What a count depends on besides the code, and when it is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Environment, Versions
from fuselight_server.commands.trace_conditions import TraceConditions, changes_of_targets, conditions_of
from tests.support.reports import report

NESTED = {"nested_graph_breaks": "True"}


def test_conditions_are_those_of_a_report() -> None:
    versions = Versions("3.11.7", "2.15.0+cu132", None, "1", "Linux", "python")
    given = replace(report(), versions=versions, environment=Environment({}, NESTED))
    assert conditions_of(given) == TraceConditions("2.15", NESTED)


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        ({"a": NESTED, "b": {}}, []),
        ({"b": {}}, []),
        ({"b": {}, "new": {}}, []),
        ({"a": {}, "b": {}}, ["`torch._dynamo.config.nested_graph_breaks` was True, now its default"]),
        (
            {"a": {"other": "1", **NESTED}, "b": {"other": "1"}},
            ["`torch._dynamo.config.other` was its default, now 1"],
        ),
    ],
)
def test_a_target_is_compared_with_itself(now: dict[str, dict[str, str]], changes: list[str]) -> None:
    earlier = {"a": TraceConditions("2.15", NESTED), "b": TraceConditions("2.15", {})}
    known = {name: TraceConditions("2.15", settings) for name, settings in now.items()}
    assert list(changes_of_targets(known, earlier)) == changes


@pytest.mark.parametrize(
    ("earlier", "now", "changes"),
    [
        (TraceConditions("2.13", {}), TraceConditions("2.13", {}), ()),
        (TraceConditions("2.13", {}), TraceConditions("2.15", {}), ("torch was 2.13, now 2.15",)),
        (
            TraceConditions("2.15", {}),
            TraceConditions("2.15", NESTED),
            ("`torch._dynamo.config.nested_graph_breaks` was its default, now True",),
        ),
        (
            TraceConditions("2.15", {"compiler.job_id": "'a'"}),
            TraceConditions("2.15", {"compiler.job_id": "'b'"}),
            ("`torch.compiler.config.job_id` was 'a', now 'b'",),
        ),
        (
            TraceConditions("2.14", NESTED),
            TraceConditions("2.15", {}),
            (
                "torch was 2.14, now 2.15",
                "`torch._dynamo.config.nested_graph_breaks` was True, now its default",
            ),
        ),
        (TraceConditions("2.13", None), TraceConditions("2.13", NESTED), ()),
        (TraceConditions(), TraceConditions("2.15", NESTED), ()),
    ],
)
def test_only_recorded_conditions_can_have_changed(
    earlier: TraceConditions, now: TraceConditions, changes: tuple[str, ...]
) -> None:
    assert now.changes_since(earlier) == changes


def test_the_setting_is_named_without_an_earlier_run() -> None:
    (note,) = TraceConditions("2.15", NESTED).notes(None)
    assert note.startswith("`torch._dynamo.config.nested_graph_breaks` is on")
    assert TraceConditions("2.15", {"nested_graph_breaks": "False"}).notes(None) == []
    assert TraceConditions("2.15", NESTED).notes(TraceConditions("2.14", NESTED)) == [
        "Changed since the baseline: torch was 2.14, now 2.15"
    ]
