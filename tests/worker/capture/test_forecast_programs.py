"""Each sentence about further values agrees with calls made by hand, counted with torch alone in another process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight.shared.report import ChangeKind, Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.forecast import forecast
from fuselight_server.commands.options import CommandOptions
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange, expected_changes
from tests.support import forecast_programs
from tests.support.case_files import marked, selected_names
from tests.support.forecast_programs import FURTHER, HEAD, PROGRAMS
from tests.support.live_worker import LiveWorker
from tests.support.prepared import program_interpreter

pytestmark = pytest.mark.torch

_FLOAT = re.compile(r"\d\.\d")


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest) -> list[str]:
    """The programs of the selected tests."""
    return selected_names(request, "name")


@pytest.fixture(scope="module")
def by_hand(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[int | str]]]:
    """What torch alone compiles for each call."""
    ran = subprocess.run(
        [program_interpreter(), str(Path(forecast_programs.__file__).resolve()), *names],
        cwd=tmp_path_factory.mktemp("by_hand"),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    counts: dict[str, dict[str, list[int | str]]] = json.loads(ran.stdout.splitlines()[-1])
    return counts


@pytest.fixture(scope="module")
def reports(names: list[str], live: LiveWorker) -> dict[str, list[Report]]:
    """What `fuselight forecast` has of each program."""
    folder = live.folder / "by_hand"
    folder.mkdir()
    paths = {}
    for name in names:
        program = PROGRAMS[name]
        paths[name] = folder / f"{name.replace(' ', '_')}.py"
        call = f"\nif __name__ == '__main__':\n    {program.call}\n"
        paths[name].write_text(f"{HEAD}{program.source}{call}", encoding="utf-8")
    options = CommandOptions(paths=tuple(paths.values()), python=sys.executable, log=lambda _text: None)
    outcome = live.do_command(forecast(options, lambda _text: None, CancelToken()))
    return {
        name: [report for report in outcome.reports if report.target.path == str(path)]
        for name, path in paths.items()
    }


def cost_of(calls: list[int | str], left: int, end: str) -> tuple[str, int]:
    """How a forecast has to say it, without the values; and its further compiles."""
    ran = [call for call in calls if isinstance(call, int)]
    if not ran:
        return f"the call raises {calls[0]} with", 0
    compiled = sum(call > 0 for call in ran)
    if compiled == len(ran):
        return f"each new * compiles: {left} more until the limit of 8, then {end}", left
    if compiled == 1 and ran[0]:
        return "one more compile, which also serves other *", 1
    return f"{compiled} of {len(ran)} other * compile", compiled


@pytest.mark.parametrize("name", marked(PROGRAMS, FURTHER))
def test_what_a_forecast_says_of_further_values_is_what_torch_does(
    reports: dict[str, list[Report]], by_hand: dict[str, dict[str, list[int | str]]], name: str
) -> None:
    program = PROGRAMS[name]
    (report,) = reports[name]
    changes = {
        change.noun: change
        for change in expected_changes(Context.of(report))
        if change.kind is not ChangeKind.SIZE_ONE
    }
    for noun, calls in by_hand[name].items():
        assert noun in changes, list(changes)
        change = changes[noun]
        if not any(calls):
            assert not change.recompiles
            continue
        end = (
            "an exception, because of fullgraph=True" if "fullgraph=True" in program.source else "eager mode"
        )
        cost, further = cost_of(calls, 7, end)
        if _FLOAT.search(program.changes[noun][0]) and not all(calls):
            cost = "one more compile"  # by hand there is no AOTAutograd either, which may fix the value
        assert _without_nouns(change) == cost, (calls, change.cost)
        assert change.further_compiles == further
        tried = [value.value for frame in report.forecasts for row in frame.changes for value in row.tried]
        assert all(any(value in call for value in tried) for call in program.changes[noun]), "the same values"


def _without_nouns(change: ExpectedChange) -> str:
    text = re.sub(r"(raises \w+ with) .*", r"\1", change.cost.partition(" (")[0].partition("; its part")[0])
    for noun in ("sizes", "values", "lengths", "size", "value", "length"):
        text = text.replace(f" {noun}", " *")
    return text
