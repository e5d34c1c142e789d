"""The argument of a call that a parameter of the compiled function gets."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Frame, Recompile, Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.rewrites.call_sites import call_argument
from tests.support.reports import FILE, at, report


@pytest.mark.parametrize(
    ("call", "parameters", "argument"),
    [
        ("Own.apply(x, two(), three())", ("ctx", "x", "part", "low"), "two()"),
        ("Own.apply(x, two(), three())", ("x", "part", "low"), "two()"),  # with a setup_context
        ("Own.apply(x, two())", ("ctx", "x", "part", "low"), None),  # two defaults, or one and a ctx
        ("Own.apply(x, part=two())", ("ctx", "x", "part"), "two()"),
        ("step(x, two(), three())", ("x", "part", "low"), "two()"),
        ("step(x, two())", ("x", "part", "low"), "two()"),
        ("step(*rest)", ("x", "part"), None),
    ],
)
def test_apply_of_an_autograd_function_takes_no_ctx(
    call: str, parameters: tuple[str, ...], argument: str | None
) -> None:
    recompilation = Recompile("Own.forward", at(20), (), caller=(at(2),))
    facts = report(frames=(Frame("Own.forward", at(20), parameters=parameters),), recompiles=(recompilation,))
    finding = Finding(
        "FL201", Severity.WARNING, "title", "", Span(FILE, 20), Tier.CAPTURE, "main", "", "2.13.0"
    )
    place = call_argument(finding, facts, recompilation, "part", lambda _path: f"def main(x):\n    {call}\n")
    assert (None if place is None else place.text) == argument
