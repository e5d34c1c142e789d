"""`fuselight forecast` without a worker: its table and its JSON."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

from fuselight.shared.report import (
    Break,
    ChangeKind,
    Culprit,
    Failure,
    Forecast,
    Frame,
    FrameForecast,
    Location,
    Report,
    TriedValue,
)
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.forecast import as_json, print_forecasts
from fuselight_server.commands.forecast import Trials
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import expected_changes
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.forecast_trials import ChangeTrial, RemedyTrial
from fuselight_server.fixes.verification.verdict import Verdict
from tests.support.reports import at, report

BATCH = Forecast(
    ChangeKind.SIZE, ("x.size(0)",), "6", "5", recompiles=True, source="x", born=(at(21),),
    guard="tensor 'L['x']' size mismatch at index 0. expected 6, actual 5",
)  # fmt: skip
WIDTH = Forecast(ChangeKind.SIZE, ("x.size(1)",), "8", "7", recompiles=False, is_likely=False)
MADE = report(
    forecasts=(FrameForecast("Net.forward", at(20), 1, 8, (BATCH, WIDTH)),), phases={"forecast": 0.004}
)


def text_of(given: Report, trials: Trials | None = None, *, is_full: bool = False) -> str:
    out = io.StringIO()
    print_forecasts(CheckOutcome(reports=[given]), Terminal(out, width=60), trials, is_full=is_full)
    return out.getvalue()


def test_a_change_with_which_the_call_raises_is_listed_without_advice() -> None:
    raising = dataclasses.replace(BATCH, tried=(TriedValue("5", 0, "ValueError"),))
    given = report(forecasts=(FrameForecast("Net.forward", at(20), 1, 8, (raising, WIDTH)),))
    out = text_of(given)
    assert "raises  /project/model.py:21" in out.replace("  " * 2, "  ")
    assert "x.size(0) changes: the call raises ValueError with 5" in out.replace("the batch", "x.size(0)")
    assert "mark_dynamic" not in out
    assert "mark_dynamic" in text_of(MADE), "the same change without a trial has advice"


def tried() -> Trials:
    """What `--verify` found for the batch of MADE: one remedy that passed, and one that did not."""
    (batch, *_) = expected_changes(Context.of(MADE))
    dynamic = Remedy("dynamic", "Compile with dynamic=True", FixClass.EXACT, {"/project/model.py": ""})
    passed = RemedyTrial(
        dynamic, Verdict(passed=True, words="1 → 0 compiles, same results"), ("-@compile", "+@compile()")
    )
    other = dataclasses.replace(dynamic, kind="other", title="Pad it")
    refused = RemedyTrial(
        other, Verdict(passed=False, words="the changed call still compiles (1 → 1)"), ("+pad",)
    )
    return {(MADE.target.path, MADE.target.name): {batch: ChangeTrial([passed, refused])}}


def test_the_table_has_the_change_its_compiles_its_line_and_its_guard() -> None:
    header, row, *rest = text_of(MADE).splitlines()[1:]
    assert header.split() == ["change", "likely", "further", "compiles", "line", "compiled", "for"]
    assert row.split("  ")[0] == "the batch changes (x.size(0): 6 → 5)"
    assert row.split()[-6:] == ["yes", "1", "/project/model.py:21", "x.size(0)", "==", "6"]
    assert "      Before the first call: torch._dynamo.mark_dynamic(x, 0)" in rest
    assert "1 other change would not recompile: --all lists them" in rest


def test_a_value_that_a_break_carried_over_is_named_by_the_expression_of_the_file(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("\n" * 24 + "        best = y.max().item()\n", encoding="utf-8")
    broken = Location(str(model), 25, 15, 25, 29)
    carried = Forecast(
        ChangeKind.NUMBER, ("___stack0",), "1.5", "2.5", recompiles=True, source="___stack0", born=(at(26),),
        guard="___stack0 == 1.5",
    )  # fmt: skip
    place = Location(str(model), 20)
    part = FrameForecast("Net.forward", place, 1, 8, (carried,), resumes_at=25)
    broke = Break("0/0", ("GB0124",), ("item",), (broken,))
    frames = Frame("Net.forward", place, resumes_at=25, carried=1)
    given = report(forecasts=(part,), breaks=(broke,), frames=(frames,))
    assert "the value of `y.max().item()` on line 25 changes" in text_of(given, is_full=True)
    text = text_of(given)
    assert "y.max()" not in text
    assert (
        f"Fix the break on {model}:25 first: 1 more change recompiles code that it separates: --all lists them"
        in text
    )
    (change,) = json.loads(as_json(CheckOutcome(reports=[given])))["targets"][0]["changes"]
    assert change["first_break"] == [str(model), 25]


def test_remedies_that_were_tried_say_what_came_of_it_and_the_rest_is_advice() -> None:
    lines = [line.strip() for line in text_of(MADE, tried()).splitlines()]
    assert "what to do (verified: tried on this code)" in lines
    at = lines.index("verified: Compile with dynamic=True (1 → 0 compiles, same results)")
    assert lines[at + 1 : at + 3] == ["-@compile", "+@compile()"]
    assert lines[at + 3] == "refused: Pad it (the changed call still compiles (1 → 1))"
    assert lines[at + 4] == "advice: Before the first call: torch._dynamo.mark_dynamic(x, 0)"
    assert "+pad" not in lines
    data = json.loads(as_json(CheckOutcome(reports=[MADE]), tried()))
    first, second = data["targets"][0]["changes"]
    assert [(value["kind"], value["verified"]) for value in first["tried"]] == [
        ("dynamic", True),
        ("other", False),
    ]
    assert (second["tried"], second["not_tried"]) == ([], "")


def test_what_cannot_be_tried_says_why() -> None:
    trials = tried()
    (batch,) = next(iter(trials.values()))
    trials[MADE.target.path, MADE.target.name] = {batch: ChangeTrial(why_not="the call raises ValueError")}
    assert "nothing was tried: the call raises ValueError" in text_of(MADE, trials)


def test_all_lists_what_needs_no_compile() -> None:
    text = text_of(MADE, is_full=True)
    assert "recompiles" in text.splitlines()[1]
    (row,) = [line for line in text.splitlines() if line.startswith("x.size(1) changes (8 → 7)")]
    assert row.split()[-5:] == ["no", "no", "-", "-", "-"]
    assert "--all" not in text


def test_a_target_without_a_forecast_says_so() -> None:
    assert "no forecast: nothing was compiled" in text_of(report())
    failed = text_of(report(failures=(Failure(Culprit.USER, "ValueError", "wrong", "fix it"),)))
    assert "failed: wrong. fix it" in failed
    assert "no forecast" not in failed


def test_json_has_each_change_with_its_remedies() -> None:
    data = json.loads(as_json(CheckOutcome(reports=[MADE])))
    (target,) = data["targets"]
    first, second = target["changes"]
    assert (data["schema"], target["seconds"]) == (1, 0.004)
    assert target["functions"][0]["limit"] == 8
    assert (first["kind"], first["recompiles"], first["place"]) == ("size", True, ["/project/model.py", 21])
    assert first["remedies"][0].endswith("mark_dynamic(x, 0)")
    assert (second["recompiles"], second["cost"], second["remedies"]) == (False, "", [])


def test_the_page_names_every_key_of_the_json() -> None:
    page = (Path(__file__).parents[3] / "docs" / "forecast.md").read_text(encoding="utf-8")
    data = json.loads(as_json(CheckOutcome(reports=[MADE])))
    target = data["targets"][0]
    verified = json.loads(as_json(CheckOutcome(reports=[MADE]), tried()))["targets"][0]["changes"][0]
    keys = {*data, *target, *target["functions"][0], *target["changes"][0], *verified["tried"][0]}
    assert sorted(key for key in keys if f"`{key}`" not in page) == []
