"""A search in the real worker, on the CPU: real compiles and real numbers."""

from __future__ import annotations

import importlib
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from fuselight.adapters.torch_api import settings
from fuselight.capture.calls.importing import Sources
from fuselight.shared.configurations import MODES, ConfigurationError
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.protocol import Answer, InputsPlan, MeasureRequest, Target, TuneRequest
from fuselight.shared.report import Culprit, Failure, Report, Tier, TuneOutcome, Work
from fuselight.worker.child.request_results import TimedResult
from fuselight.worker.child.state import ChildJob, RunState
from fuselight.worker.timed import tuning
from fuselight.worker.timed.configuration import MeasureCalls
from fuselight_server.explain.benchmarks.words import failed
from tests.support.live_worker import LiveWorker

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
DEADLINE = 500.0
"""Seconds, on a busy machine; a quiet one needs a tenth."""
MODEL = """\
import torch


# fuselight: Net()(f32[16, 64])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        return torch.softmax(torch.tanh(self.linear(x)), -1).sum(-1)
"""
FREEZING = "default+freezing=True"


def tune(live: LiveWorker, source: str = MODEL, **plan: object) -> Report:
    plan = {"budget_seconds": DEADLINE, "seconds": 0.2, "rounds": 6, "device": "cpu", "jobs": 2, **plan}
    tune_plan = TunePlan(**plan)  # type: ignore[arg-type]  # its own fields
    request = live.request(source, "Net", seconds=DEADLINE).of_kind(TuneRequest, plan=tune_plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    return outcome.report


CHANGES_ITSELF = """\
import os
import helper
import torch

print(f"sum: {helper.SCALE + 10}")
with open(helper.__file__, "w") as file:
    file.write("SCALE = 2\\n")
if os.path.exists(__file__):
    os.unlink(__file__)


# fuselight: Net()(f32[8, 8])
class Net(torch.nn.Module):
    def forward(self, x):
        return x.mm(x)
"""
"""Without a generated kernel: no C++ is compiled."""


def test_every_candidate_runs_the_text_from_the_start_of_the_search(live: LiveWorker) -> None:
    (live.folder / "helper.py").write_text("SCALE = 1\n")
    report = tune(live, CHANGES_ITSELF, candidates=("default+max_fusion_size=63",), only=True, seconds=0.05)
    assert report.output is not None
    messages = report.output.stdout.split("\n")
    assert len(messages) > 3
    assert set(messages) == {"sum: 11", ""}
    tuned = report.tuned
    assert tuned is not None
    assert not [row.configuration.failure for row in tuned.candidates if row.configuration.failure]
    (note,) = [note for note in tuned.notes if "changed during the search" in note]
    assert "`model.py`" in note
    assert "`helper.py`" in note
    (live.folder / "model.py").write_text("")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("default+freezing=maybe", "option 'freezing' takes a value of the type bool, not 'maybe'"),
        ("default+max_fusion_size=1.5", "option 'max_fusion_size' takes a value of the type int, not 1.5"),
        ("default+freezin=True", "no Inductor option 'freezin': did you mean 'freezing'?"),
    ],
)
def test_what_torch_would_refuse_is_refused_before_the_search(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        tuning._candidate_name(name, TunePlan(), settings.inductor_options())
    assert words in str(raised.value)
    message = failed(Failure(Culprit.USER, "configuration", str(raised.value), tuning._READ_MORE))
    assert message.endswith(
        ("? See what can be tried in docs/tuning.md", ". See what can be tried in docs/tuning.md")
    )
    assert "?." not in message


def test_values_that_torch_takes_are_no_error() -> None:
    options = settings.inductor_options()
    for name in ("default+freezing=True", "default+cpp.threads=2", "default+epilogue_fusion=False"):
        assert tuning._candidate_name(name, TunePlan(), options) == name


EATS_IN_THE_LAST = """\
import os
import torch

started = sorted(os.listdir("FOLDER"))
open(f"FOLDER/{os.getpid()}", "w").close()


# fuselight: Net()(f32[8, 8])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.ones(500_000_000 if len(started) > 2 else 1)

    def forward(self, x):
        return x.mm(x)
"""


def test_a_candidate_that_uses_too_much_memory_is_a_row(live: LiveWorker) -> None:
    (live.folder / "started").mkdir(exist_ok=True)
    source = EATS_IN_THE_LAST.replace("FOLDER", str(live.folder / "started"))
    name = "default+max_fusion_size=63"
    report = tune(live, source, candidates=(name,), only=True, jobs=1, memory_mb=1200, seconds=0.05)
    tuned = report.tuned
    assert tuned is not None
    assert tuned.finished
    assert tuned.winner == "default"
    (failed,) = [row for row in tuned.candidates if row.configuration.failure is not None]
    assert (failed.configuration.name, failed.outcome) == (name, TuneOutcome.FAILED)
    failure = failed.configuration.failure
    assert failure is not None
    assert failure.kind == "memory"
    assert "more than 1200 MB" in failure.message
    assert "`fuselight.limits.memoryMb`" in failure.next_step


def test_a_search_measures_compares_and_decides(live: LiveWorker) -> None:
    report = tune(live, candidates=(FREEZING,), only=True, seconds=0.05)
    assert report.tier is Tier.TUNED
    assert not report.failures
    tuned = report.tuned
    assert tuned is not None
    assert tuned.finished
    assert tuned.work is Work.INFERENCE
    rows = {candidate.configuration.name: candidate for candidate in tuned.candidates}
    assert set(rows) == {"eager", "default", FREEZING}
    for row in rows.values():
        assert row.configuration.wall is not None, row
        assert row.ready_s is not None
        assert row.ready_s > 0
    assert {sample.name for sample in tuned.race} == set(rows)
    assert all(sample.us > 0 for sample in tuned.race)
    result = tuned.result
    assert result is not None
    assert (result.file, result.target, result.configuration) == ("model.py", "Net", tuned.winner)
    assert result.torch
    default = rows["default"].configuration
    assert default.profile is not None
    assert default.generated
    frozen = rows[FREEZING].configuration
    assert not frozen.notes
    if tuned.winner == FREEZING:
        assert rows[FREEZING].outcome is TuneOutcome.WINNER
        assert tuned.confirmation is not None
        assert tuned.confirmation.low > 1
        assert result.options == {"freezing": True}
        accuracy = rows[FREEZING].configuration.accuracy
        assert accuracy is not None
        assert accuracy.passed
    else:
        assert result.options == {}
        assert result.gain == 1.0


def test_candidates_that_this_torch_does_not_know_are_refused_before_anything_runs(live: LiveWorker) -> None:
    report = tune(live, candidates=("default+freezign=True",))
    (failure,) = report.failures
    assert (failure.culprit, failure.kind) == (Culprit.USER, "configuration")
    assert "'freezign'" in failure.message
    assert "'freezing'" in failure.message
    assert report.tuned is None


def test_candidates_that_a_tuned_file_may_not_have_are_refused(live: LiveWorker) -> None:
    (failure,) = tune(live, candidates=("default+trace.enabled=True",)).failures
    assert failure.kind == "configuration"
    assert "the option `trace.enabled`, which a search cannot set" in failure.message


@pytest.mark.parametrize("name", ["eager", "written", "backend:eager", "default+fixes"])
def test_candidates_that_cannot_be_replayed_are_refused(live: LiveWorker, name: str) -> None:
    (failure,) = tune(live, candidates=(name,)).failures
    assert failure.kind == "configuration"
    assert name.partition("+")[0] in failure.message or "fixes" in failure.message


def test_a_target_that_cannot_be_built_is_a_failure_of_the_run(live: LiveWorker) -> None:
    report = tune(live, MODEL.replace("Linear(64, 64)", "Linear(64)"), accuracy=False)
    assert report.failures
    assert report.failures[0].culprit is Culprit.USER
    assert report.tuned is not None
    assert report.tuned.result is None


def test_what_is_found_by_timing_is_shared_by_all_candidates_but_torchs_own_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "ConfigurationProcess", lambda job, _name: job.request.plan)
    target = Target(str(tmp_path / "model.py"), "f", "function", 1, compiled=False)
    request = TuneRequest(1, 1, target, InputsPlan(), (str(tmp_path),))
    state = RunState(ChildJob(request, str(tmp_path), frozenset(), progress=-1), Sources(()), 0)
    searching = tuning._TimedSearch(state, request, TunePlan(device="cpu"), {}, TimedResult())
    sharing = ("default+freezing=True", "default+freezing=True+max_autotune_gemm=True+longest=8")
    others = ("eager", "float64", *MODES)
    plans: dict[str, Any] = {name: searching._start(name) for name in (*sharing, *others)}
    (folder,) = {plans[name].timings for name in sharing}
    assert folder
    assert {plans[name].timings for name in others} == {""}


@pytest.mark.parametrize("shares", [True, False])
def test_kernels_are_timed_ahead_of_the_gpu_where_timings_are_shared(
    tmp_path: Path,
    shares: bool,  # noqa: FBT001 - both cases
) -> None:
    benchmarker = importlib.import_module("torch._inductor.runtime.benchmarking").InductorBenchmarker
    plain = benchmarker.get_event_pairs
    target = Target(str(tmp_path / "model.py"), "f", "function", 1, compiled=False)
    plan = MeasurePlan(device="cpu", timings=str(tmp_path / "timings") if shares else "")
    request = MeasureRequest(1, 1, target, InputsPlan(), (str(tmp_path),), plan=plan)
    state = RunState(ChildJob(request, str(tmp_path), frozenset(), progress=-1), Sources(()), 0)
    channel, other = Pipe()
    with channel, other, MeasureCalls("default+freezing=True", channel, None).compiling(state):
        assert (benchmarker.get_event_pairs is not plain) == shares
    assert benchmarker.get_event_pairs is plain
