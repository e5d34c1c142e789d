"""FL204: functions whose caches compiled code does not use."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Compile, Frame, Graph, GuardCause, Outcome
from fuselight_server.base.finding import Severity
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import LIBRARY, at, report

LINES = {
    2: "@functools.lru_cache(maxsize=8)",
    3: "def tables(length):",
    4: "    angles = torch.arange(length)",
    5: "    return angles.cos()",
    7: "def scaled(x):",
    8: "    return x * 2",
    20: "def forward(self, x):",
    21: "    return scaled(x) + tables(x.shape[1])",
}
CALL = at(21, (23, 41), function="forward")
IN_TABLES = tuple((CALL, at(line, function="tables")) for line in (4, 5))
IN_SCALED = ((at(21, (11, 20), function="forward"), at(8, function="scaled")),)


def compiled(*lines: tuple[object, ...], compile_id: str = "0/0") -> Compile:
    return Compile(compile_id, 0, Outcome.COMPILED, graph=Graph(len(lines), lines=lines))  # type: ignore[arg-type]


def of(*compiles: Compile, **parts: object) -> list[tuple[str, int]]:
    facts = report(frames=(Frame("Net.forward", DEF),), compiles=compiles, **parts)
    shown = findings(facts, read_line=lambda _path, line: LINES.get(line, ""))
    return [(finding.code, finding.span.line) for finding in shown if finding.code == "FL204"]


def test_it_is_on_the_call_once_for_all_compiles() -> None:
    compiles = (compiled(*IN_TABLES, *IN_SCALED), compiled(*IN_TABLES, compile_id="0/1"))
    assert of(*compiles) == [("FL204", 21)]
    facts = report(frames=(Frame("Net.forward", DEF),), compiles=compiles)
    (finding,) = findings(facts, read_line=lambda _path, line: LINES.get(line, ""))
    assert finding.title == "compiled code does not use the cache of `tables`"
    assert finding.cost == ("2 operators of `tables` run in each call of the compiled code",)
    assert finding.severity is Severity.INFORMATION


@pytest.mark.parametrize("lines", [IN_SCALED, ((CALL, at(4, path=LIBRARY, function="tables")),), ((CALL,),)])
def test_there_is_none_without_operators_of_a_cached_function_of_the_user(
    lines: tuple[tuple[object, ...], ...],
) -> None:
    assert of(compiled(*lines)) == []


def test_there_is_none_where_a_recompilation_says_it() -> None:
    counter = failed(
        "COUNT was 0, now 1", source="COUNT", born=(CALL, at(4, function="tables")), cause=GuardCause.NUMBER
    )
    assert of(compiled(*IN_TABLES), recompiles=(again(counter),)) == []
