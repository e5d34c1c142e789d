"""`fuselight tune`: what is asked of the worker, what is written and printed, exit codes, and Ctrl-C."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared import tuned_file
from fuselight.shared.configurations import MODES
from fuselight.shared.protocol import (
    Answer,
    CaptureRequest,
    RunRequest,
    TuneRequest,
    VerifyRequest,
)
from fuselight.shared.report import (
    Culprit,
    Failure,
    Machine,
    Numerics,
    Report,
    TuneCandidate,
    TuneOutcome,
    Verification,
    Work,
)
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.tune import print_searches
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.tune import TargetSearch
from fuselight_server.explain.pages import document
from fuselight_server.explain.searches.decisions import WrittenDecision
from fuselight_server.fixes.rewrites.families import FixClass
from tests.support.built_pages import use_built_pages
from tests.support.command import AnsweringWorker, Result, run_cli
from tests.support.fix_world import EXACT, patch_remedies, replaced, report_of_text
from tests.support.measured import row
from tests.support.reports import report
from tests.support.tuned import default_won, result, search, tuned, undecided

SOURCE = """\
import torch


# fuselight: Net()(f32[4, 8])
class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    return path


def answer(model: Path, **of: Any) -> Callable[[Any], Report]:
    """Answers captures with a clean report, and searches with `search`, of the target that is asked for."""

    def answer_request(request: RunRequest) -> Report:
        other_report = search(of=of) if isinstance(request, TuneRequest) else report()
        return replace(
            other_report, target=replace(other_report.target, path=str(model), name=request.target.name)
        )

    return answer_request


def tune(monkeypatch: pytest.MonkeyPatch, worker: AnsweringWorker, *arguments: str) -> Result:
    worker.put_in_place(monkeypatch)
    return run_cli("tune", "m.py", *arguments)


def test_the_winner_is_printed_and_written(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tune(monkeypatch, AnsweringWorker(answer(model)))
    assert done.exit_code == 0, done.stderr
    kept = tuned_file.read(model.with_name(tuned_file.NAME))
    assert kept is not None
    assert [(tuned_result.file, tuned_result.gain) for tuned_result in kept.results] == [("m.py", 1.6)]
    lines = done.stdout.splitlines()
    assert lines[0] == "m.py: Net - inference on NVIDIA H200"
    assert lines[2].startswith("CUDA graphs and coordinate descent: 1.60× over default")
    assert any(line.split()[:3] == ["CUDA", "graphs", "2.0×"] for line in lines), done.stdout
    assert "not tried, not for inference: optimizer's step" in lines
    assert "max-autotune of the longest: out of memory. Give it smaller inputs" in lines
    assert "not tried: combo kernels: the budget left no time for its compile" in lines
    assert "written to fuselight-tuned.json. Replay it with" in lines
    assert '    model = torch.compile(model, backend="fuselight")' in lines


def test_the_options_reach_the_search(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = AnsweringWorker(answer(model))
    tune(
        monkeypatch, worker, "--budget", "2m", "--train", "--numerics", "tf32", "--device", "cpu", "--modes",
        "--no-fixes", "--only", "max-autotune,default+freezing=True", "--artifacts", "--time-limit", "30",
        "--output", "deep.json", "--fixed-modules",
    )  # fmt: skip
    (request,) = worker.requests
    plan = request.plan
    assert (plan.budget_seconds, plan.work, plan.numerics, plan.device, plan.limit_seconds) == (
        pytest.approx(120, abs=5), Work.FORWARD_BACKWARD, Numerics.TF32, "cpu", 30.0,
    )  # fmt: skip
    assert (plan.candidates, plan.only, plan.modes) == (
        ("max-autotune", "default+freezing=True"), True, MODES,
    )  # fmt: skip
    assert plan.artifacts == str(model.parent)
    assert plan.fixed_modules
    assert model.with_name("deep.json").exists()
    worker.requests.clear()
    tune(monkeypatch, worker, "--no-fixes", "--try", "max-autotune", "--try", "default+a=1", "--step")
    plan = worker.requests[0].plan
    assert (plan.candidates, plan.only, plan.artifacts) == (("max-autotune", "default+a=1"), False, "")
    assert plan.work is Work.TRAINING_STEP


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "soon"], "`soon` is no duration: write seconds, as `120s`, or minutes, as `2m`"),
        (["--try", "maxautotune"], "did you mean 'max-autotune'?"),
        (["--only", "written"], "'written' cannot be tried"),
        (["--numerics", "fast"], "--numerics"),
        (["--only", "max-autotune", "--try", "max-autotune"], "not allowed with"),
        (["--train", "--step"], "not allowed with"),
    ],
)
def test_bad_arguments_are_named_before_anything_runs(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    worker = AnsweringWorker(answer(model))
    done = tune(monkeypatch, worker, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert worker.requests == []


def test_default_as_the_fastest_is_a_decision(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = default_won()
    worker = AnsweringWorker(
        answer(model, winner="default", result=plain.result, candidates=plain.candidates)
    )
    done = tune(monkeypatch, worker)
    assert done.exit_code == 0
    assert "default is the fastest: nothing that was tried is faster beyond the noise" in done.stdout
    assert "without Fuselight" not in done.stdout


def test_a_target_that_could_not_be_tuned_is_an_error(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(Culprit.USER, "inputs", "it has no inputs", "write a directive")
    done = tune(monkeypatch, AnsweringWorker(lambda _request: report(failures=(failure,))))
    assert done.exit_code == 2
    assert "failed: it has no inputs. Write a directive" in done.stdout
    done = tune(monkeypatch, AnsweringWorker(answer(model, result=None, winner="default", candidates=())))
    assert done.exit_code == 2
    assert "no decision: default could not be measured" in done.stdout
    assert run_cli("tune", "nowhere.py").exit_code == 2


def test_a_failure_of_all_that_was_tried_is_reported_once(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure(Culprit.USER, "run", "ValueError: wrong width", "check the inputs")
    tried = tuple(
        TuneCandidate(row(name, None, failure=failure), TuneOutcome.FAILED, started_s=0.0)
        for name in ("eager", "default")
    )

    def failed(request: RunRequest) -> Report:
        of = {"result": None, "winner": "default", "candidates": tried, "knobs": (), "machine": Machine("")}
        report = search(of=of, failures=(failure,))
        return replace(report, target=replace(report.target, path=str(model), name=request.target.name))

    done = tune(monkeypatch, AnsweringWorker(failed))
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    assert lines[0] == "m.py: Net - inference", "the device is not known, and is not named"
    assert done.stdout.count("wrong width") == 1
    assert "in the order of the trials" not in done.stdout, "the table has nothing more to say"
    assert "without a name" not in done.stdout


def test_json_has_the_page_and_the_result(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tune(monkeypatch, AnsweringWorker(answer(model)), "--format", "json")
    (target,) = json.loads(done.stdout)["targets"]
    assert (target["name"], target["result"]["gain"]) == ("Net", 1.6)
    assert target["page"]["file_shown"] == "fuselight-tuned.json"
    assert target["page"]["candidates"]


def test_html_is_the_page_by_itself(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parts = tmp_path_factory.mktemp("parts")
    monkeypatch.setattr(document, "extension_folder", lambda: parts)
    worker = AnsweringWorker(answer(model))
    done = tune(monkeypatch, worker, "--format", "html")
    assert (done.exit_code, worker.requests) == (2, []), "before a search of minutes"
    assert "build it with `npm ci && npm run build`" in done.stderr
    use_built_pages(monkeypatch, parts)
    done = tune(monkeypatch, worker, "--format", "html")
    assert done.exit_code == 0
    assert "<title>Tuning: Net</title>" in done.stdout
    assert '"gain": 1.6' in done.stdout


def test_a_result_that_cannot_be_written_is_still_printed(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_request(request: RunRequest) -> Report:
        model.with_name(tuned_file.NAME).write_text("damaged")  # while the search runs
        return answer(model)(request)

    done = tune(monkeypatch, AnsweringWorker(answer_request))
    assert done.exit_code == 1
    assert "is damaged" in done.stderr
    assert "or, without Fuselight:" in done.stdout
    assert "    model = torch.compile(" in done.stdout
    assert "Replay it with" not in done.stdout


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("none/t.json", "there is no folder `{}/none`. Create it, or name another file with `--output FILE`"),
        ("none/", "`{}/none/fuselight-tuned.json` cannot be written: there is no folder"),
        ("m.py/t.json", "`{}/m.py/t.json` cannot be"),
        ("damaged", "`{}/damaged` is damaged"),
    ],
)
def test_what_cannot_be_written_is_an_error_before_the_search(
    model: Path, monkeypatch: pytest.MonkeyPatch, output: str, message: str
) -> None:
    model.with_name("damaged").write_text("{")
    before = sorted(model.parent.iterdir())
    worker = AnsweringWorker(answer(model))
    done = tune(monkeypatch, worker, "--output", output)
    assert (done.exit_code, worker.requests) == (2, [])
    assert message.format(model.parent) in done.stderr
    assert "emove it and tune again" not in done.stderr or output == "damaged"
    assert sorted(model.parent.iterdir()) == before


def test_a_read_only_folder_is_an_error_before_the_search(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    worker = AnsweringWorker(answer(model))
    done = tune(monkeypatch, worker)
    assert (done.exit_code, worker.requests) == (2, [])
    assert (
        "cannot be written: Permission denied. Tune again after you make the folder writable, or"
        in done.stderr
    )


def test_a_folder_gets_a_tuned_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model.with_name("deep").mkdir()
    done = tune(monkeypatch, AnsweringWorker(answer(model)), "--output", "deep")
    assert done.exit_code == 0
    assert [path.name for path in (model.parent / "deep").iterdir()] == [tuned_file.NAME]
    assert "written to deep/fuselight-tuned.json" in done.stdout


# Verified fixes

BREAKING = """\
import torch
# fuselight: f(f32[4])
@torch.compile
def f(x):
    return branch(x)
"""


def test_fixes_that_pass_are_tried(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model.write_text(BREAKING)
    patch_remedies(monkeypatch, replaced("where", "Use where", FixClass.EXACT))

    def answer_request(request: RunRequest) -> Report:
        if isinstance(request, TuneRequest):
            fixes = request.plan.fixes
            return answer(model, result=result(fixes=fixes))(request)
        text = request.overlays.get(str(model)) or BREAKING
        is_new = isinstance(request, VerifyRequest) and not request.records
        return report_of_text(str(model), text, verification=EXACT if is_new else Verification())

    worker = AnsweringWorker(answer_request)
    done = tune(monkeypatch, worker)
    plan = worker.requests[-1].plan
    assert plan.fixes == ("Use where",)
    assert plan.fixed == {str(model): BREAKING.replace("branch", "where")}
    assert plan.budget_seconds < 120, "what the verification took is part of the budget"
    assert "apply this fix first, with `fuselight fix --write`: Use where" in done.stdout
    assert model.read_text() == BREAKING


def test_a_clean_target_needs_one_capture(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = AnsweringWorker(answer(model))
    tune(monkeypatch, worker)
    assert [type(request) for request in worker.requests] == [CaptureRequest, TuneRequest]
    assert worker.requests[1].plan.fixed == {}


# Ctrl-C


@dataclass
class InterruptedWorker(AnsweringWorker):
    """Reports a partial search, and is interrupted as by Ctrl-C."""

    partial: Report | None = None
    canceled: bool = False

    async def run(self, request: RunRequest, progress: Any, partial: Any) -> Answer:
        if not isinstance(request, TuneRequest):
            return await super().run(request, progress, partial)
        if self.partial is not None:
            target = replace(self.partial.target, path=request.target.path)
            partial(replace(self.partial, target=target))
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.canceled = True
            raise
        raise AssertionError("it was not interrupted")


def test_an_interrupted_search_keeps_the_best_so_far(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = InterruptedWorker(answer(model), partial=search(of={"finished": False, "confirmation": None}))
    done = tune(monkeypatch, worker)
    assert worker.canceled
    assert done.exit_code == 130
    assert "kept the best configuration so far, which is not confirmed" in done.stderr
    assert "best so far: CUDA graphs and coordinate descent, 1.60×" in done.stdout
    assert "a call instead of" not in done.stdout
    assert model.with_name(tuned_file.NAME).exists()


def test_a_leader_without_what_a_replay_needs_is_shown_and_not_written(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = InterruptedWorker(answer(model), partial=replace(search(), tuned=undecided()))
    done = tune(monkeypatch, worker)
    assert done.exit_code == 130
    assert "best so far: CUDA graphs and coordinate descent, 1.60× over default, not confirmed" in done.stdout
    assert "nothing was written" in done.stderr
    assert not model.with_name(tuned_file.NAME).exists()


def test_a_search_that_knows_nothing_yet_says_so(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tune(monkeypatch, InterruptedWorker(answer(model)))
    assert (done.exit_code, done.stdout) == (130, "")
    assert "nothing was written" in done.stderr


def test_the_text_fits_a_terminal_without_unicode() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_searches(CheckOutcome(), [TargetSearch(search(), WrittenDecision("/t.json"))], Terminal(out))
    out.seek(0)
    assert "1.60x over default" in out.read()


def test_a_fix_that_the_result_needs_is_named() -> None:
    out = io.StringIO()
    report = search(of={"result": result(fixes=("Use torch.where",))})
    print_searches(
        CheckOutcome(), [TargetSearch(report, WrittenDecision("/t.json", "read-only"))], Terminal(out)
    )
    assert "apply this fix first, with `fuselight fix --write`: Use torch.where" in out.getvalue()
    assert tuned().seconds == 95.0
