"""Breaks and recompilations inside a call of the standard library go with the break of the call itself."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import Compile, Frame, Location, NotCompiled, NotCompiledKind, Outcome, Report
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.library_calls import is_standard_library
from fuselight_server.explain.findings.priority import priorities
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import at, broken, report

CALL = at(25, (8, 30))
LOGGING = "/usr/lib/python3.11/logging/__init__.py"


def run(library: str, *, is_broken: bool = True) -> Report:
    """A call on line 25 that breaks the graph; inside it, two lines of a library break and one function recompiles."""
    call = broken(CALL, gb="GB0291")
    inner = tuple(
        broken(Location(library, line, function="record"), gb="GB0007", compile_id="1/0", above=(CALL,))
        for line in (297, 340)
    )
    clock = failed("ct was 0.5, now 0.75", "EQUALS_MATCH", "ct", born=(Location(library, 297),))
    definition = Location(library, 290, function="record")
    recompile = again(clock, compile_id="1/1")
    eager = NotCompiled(NotCompiledKind.SKIPPED, "record", definition, "in a loop", stack=inner[0].stack)
    return report(
        frames=(Frame("Net.forward", DEF), Frame("record", definition)),
        compiles=(
            Compile("0/0", 0, Outcome.COMPILED),
            Compile("1/0", 1, Outcome.COMPILED, caller=(CALL,)),
            Compile("1/1", 1, Outcome.COMPILED, caller=(CALL,)),
        ),
        breaks=((call,) if is_broken else ()) + inner,
        recompiles=(dataclasses.replace(recompile, function="record", location=definition, caller=(CALL,)),),
        not_compiled=(dataclasses.replace(eager, caller=(CALL,)),),
    )


def test_what_happens_inside_a_call_of_the_standard_library_is_one_finding() -> None:
    given = run(LOGGING)
    (finding,) = (item for item in findings(given) if item.code != "FL101")
    assert (finding.code, finding.span.line) == ("GB0291", 25)
    assert "where 2 more lines break graphs and go with this break" in finding.message
    assert [priority.cost.eager for priority in priorities(Context.of(given))] == [()]


@pytest.mark.parametrize(
    ("library", "is_broken"),
    [("/usr/lib/python3.11/site-packages/net/model.py", True), (LOGGING, False)],
)
def test_an_installed_library_and_a_call_that_breaks_nothing_keep_their_findings(
    library: str, *, is_broken: bool
) -> None:
    codes = {finding.code for finding in findings(run(library, is_broken=is_broken))}
    assert {"GB0007", "FL201"} <= codes


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (LOGGING, True),
        ("/root/.pyenv/versions/3.11.7/lib/python3.11/random.py", True),
        ("C:\\Python312\\Lib\\logging\\__init__.py", True),
        ("C:\\Python312\\Lib\\site-packages\\torch\\nn\\init.py", False),
        ("/venv/lib/python3.11/site-packages/torch/optim/adam.py", False),
        ("/project/lib/model.py", False),
    ],
)
def test_the_standard_library_is_recognized_by_its_folder(path: str, *, expected: bool) -> None:
    assert is_standard_library(path) is expected
