"""The options of `fuselight bench`, and its output for missing measurements in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import CaptureRequest, InputsPlan, Progress, Refused, RunRequest, Target
from fuselight.shared.report import Culprit, Failure, GapKind, MeasuredMemory, Problem, Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.settings import Interpreter
from fuselight_server.cli import bench
from fuselight_server.commands import bench as benchmarks
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.targets import TargetRun
from fuselight_server.explain.pages.document import NotBuiltError
from tests.support.built_pages import use_built_pages
from tests.support.command import Result, run_cli
from tests.support.measured import benchmark, gap, profile, ran, row
from tests.support.reports import report

FAILURE = Failure(Culprit.USER, "inputs", "no inputs are known", "Write a directive.")
FAILED = report(failures=(FAILURE,))


class BenchCommand:
    """The measurements and the output of a command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.options: list[Any] = []
        self.reports: list[Report] = []
        self.problems: list[Problem] = []
        monkeypatch.chdir(folder)
        monkeypatch.setattr(bench, "measure", self._measure)
        use_built_pages(monkeypatch, folder)
        (folder / "model.py").write_text("import torch\n")

    async def _measure(
        self, _options: Any, _show: Any, _token: Any, **asked: Any
    ) -> tuple[CheckOutcome, list[Any]]:
        self.options.append(asked)
        outcome = CheckOutcome(reports=self.reports, problems=self.problems)
        return outcome, [TargetBenchmark(report, None) for report in self.reports]

    def run(self, *arguments: str) -> Result:
        return run_cli("bench", "model.py", *arguments)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> BenchCommand:
    return BenchCommand(monkeypatch, tmp_path)


def test_configurations_may_have_commas_and_come_in_several_options(command: BenchCommand) -> None:
    backends = 'max-autotune+max_autotune_gemm_backends="ATEN,TRITON"'
    command.run("--compare", f"default, {backends}", "--compare", "eager", "--compare", "dynamic")
    assert command.options[0]["compare"] == ("default", backends, "eager", "dynamic")


def test_the_peak_of_tensors_follows_the_table_with_its_estimate(command: BenchCommand) -> None:
    memory = MeasuredMemory(4_000_000, 1_000_000, (), 6_000_000, 500_000)
    command.reports = [benchmark(row("eager", memory=memory, estimated_bytes=4_000_000), row("default"))]
    printed = command.run().stdout
    assert (
        "eager: tensors 4 MB: the estimate is the same; reserved 6 MB, 2 MB of it not used at the peak; "
        "500 KB in pieces between tensors at the end\n"
    ) in printed
    assert "default: tensors" not in printed


@pytest.mark.parametrize(("given", "is_estimated"), [((), True), (("--no-estimate",), False)])
def test_memory_is_estimated_unless_that_is_skipped(
    command: BenchCommand,
    given: tuple[str, ...],
    is_estimated: bool,  # noqa: FBT001 - both cases
) -> None:
    command.run(*given)
    assert command.options[0]["plan"].estimates_memory is is_estimated


@pytest.mark.parametrize("output", ["csv", "html"])
def test_a_failed_target_is_reported_on_stderr_with_file_output(command: BenchCommand, output: str) -> None:
    command.reports = [FAILED]
    result = command.run("--format", output)
    assert result.exit_code == 2
    assert "Net: no inputs are known. Write a directive." in result.stderr


def test_json_is_complete_and_includes_failures(command: BenchCommand) -> None:
    command.reports = [FAILED, benchmark(row("eager", 300.0))]
    command.problems = [Problem("targets", "g", "no class or function")]
    result = command.run("--format", "json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert data["targets"][0]["failures"][0]["message"] == "no inputs are known"
    assert [target["page"]["found"] for target in data["targets"]] == [False, True]
    assert data["problems"][0]["what"] == "g"


@pytest.mark.parametrize("output", ["json", "csv", "html"])
def test_no_target_is_reported_in_every_format(command: BenchCommand, output: str) -> None:
    result = command.run("--format", output)
    assert result.exit_code == 2
    assert "no target. Name a class or function with --target" in result.stderr


def test_small_parts_of_a_call_are_omitted(command: BenchCommand) -> None:
    small = [gap(GapKind.EAGER, 1.0 + line, line, f"aten::op{line}") for line in range(1, 16)]
    shown = profile([ran(None, 100.0)], [*small, gap(GapKind.HOST, 50.0)])
    command.reports = [benchmark(row("eager", 300.0), row("default", 100.0, profile=shown))]
    text = command.run("--format", "text").stdout
    assert "Python and other work on the host" in text
    assert "... and 5 more parts" in text
    assert [f"(aten::op{line})" in text for line in (5, 6, 15)] == [False, True, True]


def test_ctrl_c_says_where_completed_benchmarks_are(
    command: BenchCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_given: Any, **_asked: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    result = command.run()
    assert result.exit_code == 130
    assert "stopped: finished benchmarks are in the history" in result.stderr


def test_a_missing_page_bundle_is_reported_before_measuring(
    command: BenchCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_built(_script: str) -> None:
        raise NotBuiltError("the page's script is not built")

    monkeypatch.setattr(bench, "page_parts", not_built)
    result = command.run("--format", "html")
    assert (result.exit_code, command.options) == (2, [])
    assert "the page's script is not built" in result.stderr


@pytest.mark.asyncio
async def test_a_target_without_a_run_to_compare_with_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    path = str(tmp_path / "model.py")

    def turn(name: str) -> TargetRun:
        target = Target(path, name, "module", 4, compiled=True)
        request = CaptureRequest(
            id=1, generation=1, target=target, inputs=InputsPlan(), roots=(str(tmp_path),)
        )
        worker: Any = SimpleNamespace(hello=None)
        return TargetRun(request, worker, Interpreter(""), print)

    async def run(turn: TargetRun, _request: RunRequest) -> Report:
        report = benchmark(row("eager", 300.0), row("default", 100.0))
        return replace(report, target=replace(report.target, path=path, name=turn.request.target.name))

    async def report_each(
        _options: Any, _show: Any, _token: Any, report_of: Any, **_more: Any
    ) -> CheckOutcome:
        outcome = CheckOutcome()
        outcome.reports += [await report_of(turn(name), outcome) for name in names]
        return outcome

    monkeypatch.setattr(TargetRun, "run_report", run)
    monkeypatch.setattr(benchmarks, "report_each", report_each)
    plan = MeasurePlan(limit_seconds=10.0)
    names = ["Net"]
    await benchmarks.measure(CommandOptions((tmp_path,)), print, CancelToken(), plan=plan)
    names = ["New", "Net"]
    options = CommandOptions((tmp_path,))
    outcome, (new, net) = await benchmarks.measure(options, print, CancelToken(), plan=plan, against="last")
    assert (
        new.report.failures[0].message == f"{shown_path(path)}: `New` has no run `last`. It has no runs yet"
    )
    assert net.before is not None
    assert bench.exit_code(outcome) == 2


@pytest.mark.asyncio
async def test_measurements_survive_the_loss_of_the_worker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    part = benchmark(row("eager", 300.0), row("default", 100.0), of={"finished": False})
    lost = Failure(Culprit.FUSELIGHT, "worker_died", "the worker ended", "Run it again.")

    async def run(request: RunRequest, on_progress: Any, on_partial: Any) -> Refused:
        on_progress(Progress(request.id, "measure", "round 1 of 10"))
        for other_report in parts:
            on_partial(other_report)
        return Refused(request.id, "failed", lost)

    worker: Any = SimpleNamespace(run=run, hello=None)
    target = Target("/project/model.py", "Net", "module", 4, compiled=True)
    request = CaptureRequest(id=1, generation=1, target=target, inputs=InputsPlan(), roots=("/project",))
    parts = [benchmark(row("eager", None), of={"finished": False}), part]
    report = await TargetRun(request, worker, Interpreter(""), print).run_report()
    assert capsys.readouterr().out == "round 1 of 10\n"
    assert report == replace(part, failures=(lost,))
    assert bench.exit_code(CheckOutcome(reports=[report])) == 2
    parts = parts[:1]
    report = await TargetRun(request, worker, Interpreter(""), print).run_report()
    assert (report.measured, report.failures) == (None, (lost,))
