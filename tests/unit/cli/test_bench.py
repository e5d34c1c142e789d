"""`fuselight bench` as text and data, its exit codes, and its comparisons."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import CaptureRequest, InputsPlan, RunRequest, Target
from fuselight.shared.report import Culprit, Failure, GapKind, Problem, Report, Tier
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.formatting import format_moment
from fuselight_server.base.settings import Interpreter
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli import bench
from fuselight_server.cli.formats.bench import as_csv, as_json, print_benchmarks
from fuselight_server.cli.problems import report_problems
from fuselight_server.commands import bench as benchmarks
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
from fuselight_server.commands.targets import TargetRun, planned_jobs, readings_of, texts_of
from fuselight_server.explain.benchmarks.exports import from_json
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.source.document import read_source
from tests.support.command import run_cli
from tests.support.measured import benchmark, gap, graph, kernel, profile, ran, row, wrong
from tests.support.reports import FILE, ROOT, at, report

FAILURE = Failure(Culprit.ENVIRONMENT, "memory", "out of memory", "Give it smaller inputs.")
SHOWN = profile([ran(0, 30.0), ran(1, 60.0), ran(7, 10.0)], [gap(GapKind.SYNC, 100.0, 14, "aten::item")])
DEFAULT = row(
    "default", 100.0, generated=(graph(kernel(3, 4), kernel(9, launch=1)),), profile=SHOWN, graph_breaks=1,
    recompiles=0, peak_bytes=12_600_000,
)  # fmt: skip


def printed_text(*reports: Report, before: Report | None = None) -> str:
    outcome = CheckOutcome(reports=list(reports))
    out = io.StringIO()
    print_benchmarks(outcome, list(benched(*reports, before=before)), Terminal(out))
    return out.getvalue()


def benched(*reports: Report, before: Report | None = None) -> Any:
    def run(report: Report) -> Any:
        return run_of(report, ROOT, lambda _path, line: f"line {line}")

    return [
        TargetBenchmark(report, run(report), run(before) if before is not None else None)
        for report in reports
    ]


def test_missing_lines_of_another_backend_are_reported_once() -> None:
    shown = replace(profile([ran(None, 90.0), ran(None, 10.0)]), joined_us=0.0)
    text = printed_text(
        benchmark(row("eager", 100.0), row("backend:aot_eager", 99.0, profile=shown, compiles=1))
    )
    assert "no source line" not in text
    assert text.count("the kernels of this backend have none") == 1
    assert "kernels of operators of this backend, and what was not compiled" in text


def test_the_verdict_comes_first_then_rows_lines_and_where_the_time_goes() -> None:
    text = printed_text(benchmark(row("eager", 300.0), DEFAULT))
    lines = text.splitlines()
    assert lines[0] == f"{FILE}: Net - inference on NVIDIA H200, timed by the host clock"
    assert lines[1] == "inputs: Net()(f32[4, 8])"
    assert lines[2] == "default is 3.0× as fast as eager: 100 µs ± 1% vs. 300 µs ± 1%"
    assert lines[3].startswith("  - its cold compile takes 2 s")
    slowed = "a call under the profiler, which takes 200 µs in place of 100 µs,"
    assert f"  - 50% of {slowed} is waiting for the device (aten::item): 100 µs ({FILE}:14)" in lines
    (default,) = [line for line in lines if line.startswith("default   ")]
    assert default.split() == [
        "default",
        "100",
        "µs",
        "±",
        "1%",
        "3.0×",
        "12.6",
        "MB",
        "2",
        "s",
        "1",
        "0",
    ]
    assert re.search(rf"{FILE}:9 +60 µs +60%$", text, re.MULTILINE)
    assert re.search(r"10 µs +- +- +1 +triton_7  \(no source line\)$", text, re.MULTILINE)
    assert re.search(r"^time +estimate +of the limit +count +kernel$", text, re.MULTILINE)
    assert "estimate: predicted before the run; of the limit: " in text
    assert "alone" not in text
    assert re.search(r"100 µs +50% +#{10} +waiting for the device \(aten::item\)", text)
    assert "wall time of one call, default: 200 µs, with the profiler on (CUPTI)" in text


def test_the_verdict_names_its_configuration() -> None:
    slow = row("max-autotune", 290.0)
    assert "\n  Details for default:\n  - " in printed_text(benchmark(row("eager", 300.0), DEFAULT, slow))
    assert "Details for" not in printed_text(benchmark(row("eager", 300.0), DEFAULT))
    failed = printed_text(benchmark(row("eager", 300.0), DEFAULT, row("max-autotune", None, failure=FAILURE)))
    assert "\n  - max-autotune could not be measured: out of memory\n  Details for default:\n  - " in failed


def test_medians_far_from_the_mean_have_a_note() -> None:
    uneven = replace(SHOWN, kernel_us=600.0, wall_us=700.0)
    text = printed_text(benchmark(row("eager", 300.0), replace(DEFAULT, profile=uneven)))
    assert (
        "medians (100 µs in total); wall times are means. They differ because some profiled calls took much longer"
        in text
    )
    assert "are medians" not in printed_text(benchmark(row("eager", 300.0), DEFAULT))


def test_the_error_that_ended_the_run_is_reported_once_on_its_line() -> None:
    failure = Failure(Culprit.USER, "exception", "shapes differ", "fix the line", stack=(at(14),))
    rows = (row("eager", None, failure=failure), row("written", None, failure=failure))
    text = printed_text(benchmark(*rows, failures=(failure,)))
    assert f"failed: shapes differ. Fix the line ({FILE}:14)" in text
    assert text.count("shapes differ") == 1
    assert "configuration" not in text
    both = printed_text(benchmark(rows[0], row("written", None, failure=FAILURE), failures=(failure,)))
    assert both.count("shapes differ") == 1
    assert "as in source: failed: out of memory. Give it smaller inputs." in both


def test_a_configuration_that_did_not_start_has_not_failed() -> None:
    text = printed_text(benchmark(row("eager", 300.0), of={"order": ("eager", "written"), "finished": False}))
    assert re.search(r"^as in source +not measured +- ", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["half.py", "README.md"])
def test_a_file_that_is_not_python_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("one = 1\ndef f(:\n")
    outcome = CheckOutcome()
    assert planned_jobs(readings_of(texts_of([path], outcome)), outcome, CommandOptions(())) == []
    (problem,) = outcome.problems
    assert problem.what.endswith(f"{name}:2")
    assert problem.why == "syntax error, so nothing in this file was run"


@pytest.mark.parametrize(
    ("name", "offered"),
    [("mixer", "; did you mean Mixer?"), ("Mixr", "; did you mean Mixer?"), ("nothing", "")],
)
def test_the_nearest_name_is_suggested(name: str, offered: str) -> None:
    outcome = CheckOutcome()
    readings = readings_of({FILE: "from torch import nn\nclass Mixer(nn.Module): ...\n"}, (name,))
    assert planned_jobs(readings, outcome, CommandOptions((), targets=(name,))) == []
    (problem,) = outcome.problems
    assert (problem.what, problem.why.endswith(f".py{offered}")) == (name, True)


def test_failures_and_wrong_results_are_in_their_rows() -> None:
    text = printed_text(
        benchmark(
            row("eager", 300.0),
            replace(DEFAULT, accuracy=wrong(first=(at(14),))),
            row("max-autotune", None, failure=FAILURE),
        )
    )
    assert "max-autotune: failed: out of memory. Give it smaller inputs." in text
    assert (
        f"default: not as eager within a tolerance of 0.0001 (1 tensor against float64) ({FILE}:14)\n" in text
    )
    why = f"the first operator that differs is torch.relu at {FILE}:14"
    output = printed_text(
        benchmark(row("eager", 300.0), replace(DEFAULT, accuracy=wrong(first=(at(14),), why=why)))
    )
    assert f": {why}\n" in output
    assert "    output: cosine 0.5, largest error 1, relative 2" in text
    assert f"error[FL801] {FILE}:14: results of `default` differ from eager" in text


def test_without_targets_or_inputs_the_next_step_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    report_problems(CheckOutcome(), "measure", is_empty=True)
    assert "no target. Name a class or function with --target" in capsys.readouterr().err
    report_problems(CheckOutcome(problems=[Problem("targets", "Nott", "no class")]), "measure", is_empty=True)
    assert capsys.readouterr().err == "fuselight: cannot measure Nott: no class\n"
    failed = report(failures=(Failure(Culprit.USER, "inputs", "no inputs are known", "Write a directive."),))
    assert "failed: no inputs are known. Write a directive." in printed_text(failed)


def test_a_comparison_lists_changes_or_says_that_there_are_none() -> None:
    now = benchmark(row("eager", 300.0), row("default", 112.0))
    text = printed_text(now, before=benchmark(row("eager", 300.0), row("default", 100.0)))
    assert (
        f"against {format_moment('2026-01-31T12:00:00Z')}, NVIDIA H200, torch 2.13.0, inference, default 3.0×"
        in text
    )
    assert "  default: +12%, 100 µs -> 112 µs" in text
    assert "nothing changed by more than the spread" in printed_text(now, before=now)


def test_data_has_every_target() -> None:
    other = benchmark(row("eager", 300.0))
    reports = [
        benchmark(row("eager", 300.0), DEFAULT),
        replace(other, target=replace(other.target, name="g")),
    ]
    outcome = CheckOutcome(reports=reports)
    data = json.loads(as_json(outcome, benched(*reports)))
    assert [target["name"] for target in data["targets"]] == ["Net", "g"]
    assert data["targets"][0]["page"]["configurations"][1]["speedup"] == 3.0
    assert from_json(json.dumps(data), "g").report.target.name == "g"
    rows = list(csv.DictReader(io.StringIO(as_csv(outcome, benched(*reports)))))
    assert {row["target"] for row in rows} == {"Net", "g"}


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (benchmark(row("eager"), DEFAULT), 0),
        (benchmark(row("eager", 10.0), DEFAULT), 0),  # slower is no error
        (benchmark(row("eager"), replace(DEFAULT, accuracy=wrong())), 1),
        (benchmark(row("eager"), row("default", None, failure=FAILURE)), 2),
        (benchmark(row("eager"), DEFAULT, of={"finished": False}), 2),
        (report(failures=(FAILURE,)), 2),
        (None, 2),
    ],
)
def test_the_exit_code_reports_missing_and_wrong_results(report: Report | None, code: int) -> None:
    assert bench.exit_code(CheckOutcome(reports=[report] if report is not None else [])) == code


def test_a_comment_silences_a_finding_and_its_exit_code() -> None:
    text = "\n" * 13 + "y = f(x)  # fuselight: ignore[FL801]\n"
    outcome = CheckOutcome(
        reports=[benchmark(row("eager"), replace(DEFAULT, accuracy=wrong(first=(at(14),))))],
        readings={FILE: read_source(FILE, text)},
    )
    assert bench.exit_code(outcome) == 0


def test_a_problem_of_the_command_is_a_failure() -> None:
    problem = Problem("targets", "g", "no class")
    assert bench.exit_code(CheckOutcome(reports=[benchmark(row("eager"), DEFAULT)], problems=[problem])) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "eager,defualt"], "did you mean 'default'?"),
        (["--compare", "default+dynamical"], "'dynamical' in 'default+dynamical' is unknown"),
        (["--compare", "default", "--compare", "default+a='x,eager"], '"\'" is not closed in'),
        (["--against", "nowhere.json"], "nowhere.json cannot be compared with: No such file or directory"),
        (["--against", "{}.json"], "no benchmark is in it: make one with `fuselight bench --format json`"),
    ],
)
def test_impossible_options_are_reported_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("{}.json").write_text("{}")
    Path("model.py").write_text("import torch\n")
    result = run_cli("bench", "model.py", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


async def kept(folder: Path, against: str | None, us: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measure `Net` of a file with a worker that answers immediately; returns the outcome and its output."""
    path = folder / "model.py"
    path.write_text("import torch\n\n\nclass Net(torch.nn.Module): ...\n")
    asked = []

    async def run(_run: TargetRun, request: RunRequest) -> Report:
        asked.append(request)
        report = benchmark(row("eager", 300.0), row("default", us))
        return replace(report, target=replace(report.target, path=str(path)))

    async def report_each(
        _options: Any, _show: Any, _token: Any, report_of: Any, **_more: Any
    ) -> CheckOutcome:
        target = Target(str(path), "Net", "module", 4, compiled=True)
        request = CaptureRequest(id=1, generation=1, target=target, inputs=InputsPlan(), roots=(str(folder),))
        outcome = CheckOutcome()
        worker: Any = SimpleNamespace(hello=None)
        outcome.reports.append(await report_of(TargetRun(request, worker, Interpreter(""), print), outcome))
        return outcome

    monkeypatch.setattr(TargetRun, "run_report", run)
    monkeypatch.setattr(benchmarks, "report_each", report_each)
    plan = MeasurePlan(limit_seconds=10.0)
    outcome, target_benchmarks = await benchmarks.measure(
        CommandOptions((path,)), print, CancelToken(), plan=plan, against=against
    )
    return next(iter(asked), None), outcome, target_benchmarks[0]


@pytest.mark.asyncio
async def test_a_benchmark_is_saved_and_the_next_is_compared_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    request, _, first = await kept(tmp_path, None, 100.0, monkeypatch)
    assert (request.tier, request.plan.configurations) == (Tier.MEASURED, ("eager", "written"))
    assert request.limits.seconds == 100.0  # a minute besides those of four
    assert first.before is None
    for name in ("last", "20260131T120000Z", str(tmp_path / "model.py")):
        _, _, value = await kept(tmp_path, name, 112.0, monkeypatch)
        assert value.before is not None
        assert value.before.past.when == "2026-01-31T12:00:00Z"
    (tmp_path / "other.py").touch()
    for name, why in (
        ("never", "`Net` has no run `never`. Its runs are 2026"),
        (str(tmp_path / "other.py"), "has no benchmark of `Net`. Make one with `fuselight bench "),
    ):
        asked, outcome, value = await kept(tmp_path, name, 112.0, monkeypatch)
        (failure,) = value.report.failures
        assert why in failure.message
        assert (asked, bench.exit_code(outcome)) == (None, 2), "nothing was run for it"


@pytest.mark.asyncio
async def test_an_export_of_another_checkout_can_be_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    there = benchmark(row("eager", 300.0), row("default", 100.0))
    exported = tmp_path / "then.json"
    exported.write_text(as_json(CheckOutcome(reports=[there]), benched(there)))
    _, outcome, value = await kept(tmp_path, str(exported), 112.0, monkeypatch)
    assert value.before.report.target.path == FILE
    renamed = replace(there, target=replace(there.target, name="Old"))
    exported.write_text(as_json(CheckOutcome(reports=[renamed]), benched(renamed)))
    _, _, other = await kept(tmp_path, str(exported), 112.0, monkeypatch)
    assert other.report.failures[0].message == f"{exported}: it has no benchmark of Net, but of Old"
    data = json.loads(as_json(outcome, [value]))
    changes = data["targets"][0]["page"]["comparison"]["configurations"]
    assert [change["change"] for change in changes] == [None, pytest.approx(0.12)]


@pytest.mark.asyncio
async def test_a_missing_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    _, _, value = await kept(tmp_path, "last", 100.0, monkeypatch)
    assert value.report.failures[0].message.endswith("`Net` has no run `last`. It has no runs yet")


def damage(folder: Path, identity: str) -> None:
    (path,) = folder.glob(f".fuselight/bench/*/{identity}.json.gz")
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.asyncio
async def test_a_damaged_last_run_is_replaced_by_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    for us in (100.0, 50.0):
        await kept(tmp_path, None, us, monkeypatch)
    damage(tmp_path, "20260131T120000Z-2")
    _, _, value = await kept(tmp_path, "last", 112.0, monkeypatch)
    assert value.before.past.id == "20260131T120000Z"
