"""Exit codes of `fuselight warm`, and how caches and starts are printed, from recorded starts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from fuselight.shared.report import Problem
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs_caches import print_caches, print_start, start_data, summary_data
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
