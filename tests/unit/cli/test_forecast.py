"""`fuselight forecast` without a worker: its table and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

from fuselight.report import ChangeKind, Culprit, Failure, Forecast, FrameForecast, Report
from fuselight_server.cli.formats.forecast import as_json, print_forecasts
from fuselight_server.cli.outcome import CheckOutcome
from fuselight_server.cli.terminal import Terminal
from tests.support.reports import at, report

BATCH = Forecast(
    ChangeKind.SIZE, ("x.size(0)",), "6", "5", recompiles=True, source="x", born=(at(21),),
    guard="tensor 'L['x']' size mismatch at index 0. expected 6, actual 5",
)  # fmt: skip
WIDTH = Forecast(ChangeKind.SIZE, ("x.size(1)",), "8", "7", recompiles=False, is_likely=False)
MADE = report(
    forecasts=(FrameForecast("Net.forward", at(20), 1, 8, (BATCH, WIDTH)),), phases={"forecast": 0.004}
)


def text_of(given: Report, *, is_full: bool = False) -> str:
    out = io.StringIO()
    print_forecasts(CheckOutcome(reports=[given]), Terminal(out, width=60), is_full=is_full)
    return out.getvalue()


def test_the_table_has_the_change_its_compiles_its_line_and_its_guard() -> None:
    header, row, *rest = text_of(MADE).splitlines()[1:]
    assert header.split() == ["change", "likely", "further", "compiles", "line", "compiled", "for"]
    assert row.split("  ")[0] == "the batch changes (x.size(0): 6 → 5)"
    assert row.split()[-6:] == ["yes", "1", "/project/model.py:21", "x.size(0)", "==", "6"]
    assert "      Before the first call: torch._dynamo.mark_dynamic(x, 0)" in rest
    assert "1 other change would not recompile: --all lists them" in rest


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
    keys = {*data, *target, *target["functions"][0], *target["changes"][0]}
    assert sorted(key for key in keys if f"`{key}`" not in page) == []
