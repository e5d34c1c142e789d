"""Exit codes of `fuselight warm`, and how caches and starts are printed, from recorded starts."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest

from fuselight.shared.report import Inputs, Problem, Rung, TargetRef
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs_caches import (
    print_caches,
    print_start,
    print_warm,
    start_data,
    summary_data,
)
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.warm import WarmOutcome, WarmState, WarmTarget
from fuselight_server.jobs.caches.starts import start_pictures
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.reports import report

STARTS = Path(__file__).parents[3] / "recordings" / "caches" / "torch-2.13"


def target(state: WarmState) -> WarmTarget:
    return WarmTarget(report(), state, None, None, None, None)


@pytest.mark.parametrize(
    ("states", "exit_code"),
    [
        ([], 2),
        ([WarmState.WARM, WarmState.NOTHING_COMPILED], 0),
        ([WarmState.WARM, WarmState.COMPILED_AGAIN], 1),
        ([WarmState.FAILED, WarmState.COMPILED_AGAIN], 2),
    ],
)
def test_exit_codes(states: list[WarmState], exit_code: int) -> None:
    targets = list(map(target, states))
    assert WarmOutcome(CheckOutcome(), targets).exit_code == exit_code
    problems = [Problem("targets", "model.py", "it cannot be read")]
    assert WarmOutcome(CheckOutcome(problems=problems), targets).exit_code == 2


def test_a_summary_names_each_cause_once_with_what_to_do() -> None:
    (first,) = read_jobs([str(STARTS / "base.log.gz")])
    (second,) = read_jobs([str(STARTS / "pass_without_uuid.log.gz")])
    summary = summarize(second, first)
    out = io.StringIO()
    print_caches(summary, Terminal(out))
    text = out.getvalue()
    assert text.count("The custom pass on the post grad graph has no `uuid()`.") == 1
    assert "forward: FX graph cache bypass and AOTAutograd cache bypass (~" in text
    assert "to do: Derive the pass from" in text
    data = summary_data(summary)
    assert data is not None
    json.dumps(data)
    assert [row["compile_id"] for row in data["results"]] == ["0/0", "0/0"]


def test_a_changed_key_is_data_with_its_words() -> None:
    (first,) = read_jobs([str(STARTS / "base.log.gz")])
    (second,) = read_jobs([str(STARTS / "edited_line.log.gz")])
    data = summary_data(summarize(second, first))
    assert data is not None
    change = data["results"][0]["causes"][0]["changes"][0]
    assert (change["factor"], change["component"], change["text"]) == ("graph", "gm", "the graph changed")
    assert change["lines"][0]["after"] == "h = torch.relu(self.up(x)) + 1"


def test_a_start_has_a_bar_for_each_stage() -> None:
    (job,) = read_jobs([str(STARTS.parents[1] / "jobs" / "torch-2.13" / "cache_miss")])
    (picture,) = start_pictures(job)
    out = io.StringIO()
    print_start(picture, Terminal(out))
    lines = out.getvalue().splitlines()
    bars = [line for line in lines if line.endswith("#")]
    assert len(bars) == len(picture.stages)
    assert max(line.count("#") for line in bars) == 24
    assert any("of which a second start saves ~" in line for line in lines)
    data = start_data(picture)
    assert data is not None
    assert json.loads(json.dumps(data))["seconds"] == picture.seconds


def test_the_line_of_a_decorated_function_is_its_def() -> None:
    (job,) = read_jobs([str(STARTS.parents[1] / "jobs" / "torch-2.13" / "cache_miss")])
    (plain,) = start_pictures(job)
    line = next(row for row in plain.lines if row.location is not None)
    assert line.location is not None
    first = line.location.line
    texts = {first: "@torch.compile(", first + 1: ")", first + 2: f"async def {line.function}(self, x):"}
    (picture,) = start_pictures(job, read_line=lambda _path, number: texts.get(number, ""))
    assert [row.location and row.location.line for row in picture.lines if row.function == line.function] == [
        first + 2
    ]
    results = summarize(job, read_line=lambda _path, number: texts.get(number, "")).results
    assert {row.location.line for row in results if row.location and row.function == line.function} == {
        first + 2
    }
    for unknown in (lambda _path, _number: None, lambda _path, _number: "@decorated"):
        (same,) = start_pictures(job, read_line=unknown)
        assert same.lines == plain.lines


def test_the_starts_of_a_program_are_printed_once() -> None:
    (job,) = read_jobs([str(STARTS.parents[1] / "jobs" / "torch-2.13" / "cache_miss")])
    (picture,) = start_pictures(job)
    summary = summarize(job)
    targets = []
    for name, rung in (("step", Rung.MAIN), ("loss", Rung.SCRIPT), ("other", Rung.DIRECTIVE)):
        known = dataclasses.replace(
            report(), target=TargetRef("/train.py", name, 1, "function"), inputs=Inputs(rung, "/train.py")
        )
        targets.append(WarmTarget(known, WarmState.WARM, summary, summary, picture, picture))
    out = io.StringIO()
    print_warm(WarmOutcome(CheckOutcome(), targets), Terminal(out))
    step, loss, other = out.getvalue().strip().split("\n\n")
    assert loss.splitlines()[1:] == ["  the program ran as for step, see above"]
    assert step.splitlines()[1:] == other.splitlines()[1:]
    assert "compile time: " in step
