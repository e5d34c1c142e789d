"""A benchmark in the real worker, on the CPU: real numbers, and every way in which a configuration can fail."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from pathlib import Path

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, MeasureRequest, Progress
from fuselight.shared.report import (
    Clock,
    Culprit,
    GapKind,
    LaunchKind,
    Measured,
    MeasuredConfiguration,
    Report,
    Rung,
    Tier,
    Work,
)
from tests.support.backends import WRONG
from tests.support.live_worker import LiveWorker, wait_gone

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
DEADLINE = 500.0
"""Seconds, on a busy machine; a quiet one needs a tenth."""

MODEL = (
    """\
import torch
from torch._dynamo import register_backend


"""
    + WRONG
    + """

@register_backend
def hangs(gm, inputs):
    while True:
        __import__("time").sleep(1)


@register_backend
def dies(gm, inputs):
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)


@register_backend
def lacks_memory(gm, inputs):
    raise torch.OutOfMemoryError("no memory for the kernels")


# fuselight: Net()(f32[16, 32])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 64)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        torch._dynamo.graph_break()
        z = y.exp()
        return torch.sin(z).sum(-1)
"""
)
COMPILED = "default+epilogue_fusion=false"
"""With an option, which passes through all processes."""
EAGER_ALONE = ("backend:eager",)
"""Two configurations that wait for no compiler."""
WRONG_LINE = 1 + MODEL.splitlines().index("        return torch.sin(z).sum(-1)")


def measure(live: LiveWorker, source: str, name: str, **plan: object) -> Report:
    plan = {"seconds": 0.02, "rounds": 3, "device": "cpu", **plan}
    request = live.request(source, name, seconds=DEADLINE)
    measure_plan = MeasurePlan(**plan)  # type: ignore[arg-type]  # its own fields
    request = request.of_kind(MeasureRequest, plan=measure_plan)
    outcome = live.do(live.worker.run(request, live.progress.append), DEADLINE)
    assert isinstance(outcome, Answer), outcome
    return outcome.report


def rows(report: Report) -> dict[str, MeasuredConfiguration]:
    assert report.measured is not None
    return {row.name: row for row in report.measured.configurations}


@pytest.fixture(scope="module")
def report(live: LiveWorker) -> Report:
    """One benchmark with Inductor and with backends that go wrong."""
    names = (COMPILED, "backend:wrong", "backend:dies", "backend:lacks_memory", "backend:nope")
    return measure(live, MODEL, "Net", configurations=names, isolated=True)


@pytest.fixture(scope="module")
def measured(report: Report) -> Measured:
    assert report.measured is not None
    return report.measured


def test_it_is_a_report_of_the_target_with_what_its_compile_learned(report: Report) -> None:
    assert report.tier is Tier.MEASURED
    assert report.failures == ()
    assert report.target.name == "Net"
    assert report.inputs is not None
    assert [call.text for call in report.inputs.calls] == ["Net()(f32[16, 32])"]
    assert len(report.breaks) == 1


def test_eager_and_compiled_have_real_times(measured: Measured) -> None:
    assert measured.finished
    assert measured.order[:2] == ("eager", COMPILED)
    assert measured.work is Work.INFERENCE
    assert measured.machine.threads >= 1
    assert measured.random is False
    for row in measured.configurations[:2]:
        assert row.failure is None
        assert row.wall is not None
        assert row.wall.clock is Clock.WALL
        assert 0 < row.wall.low_us <= row.wall.median_us <= row.wall.high_us
        assert row.wall.calls >= len(row.wall.rounds_us) >= 3
        assert row.device is None
        assert row.first_us is not None
        assert row.second_us is not None
        assert row.first_us > 0
    assert 0 < measured.counted_seconds <= measured.seconds


def test_a_cold_compile_has_steps_on_the_users_lines(measured: Measured) -> None:
    row = measured.configurations[1]
    assert row.graph_breaks == 1
    assert row.compiles == 2
    assert row.recompiles == 0
    assert len(row.generated) == 2
    assert row.compile_steps
    assert row.first_us is not None
    outermost = sum(step.us for step in row.compile_steps if step.depth == 0)
    assert 0 < outermost <= 1.01 * row.first_us, "the steps are a part of the first call"
    assert any(step.location is not None for step in row.compile_steps)


def test_where_the_time_goes_adds_up_and_is_joined(report: Report, measured: Measured) -> None:
    for row in measured.configurations[:2]:
        profile = row.profile
        assert profile is not None
        assert profile.kernel_us + sum(gap.us for gap in profile.gaps) == pytest.approx(profile.wall_us)
        assert profile.joined_us >= 0.99 * profile.device_us
    compiled = measured.configurations[1]
    assert compiled.profile is not None
    keys = {
        (launch.graph, launch.launch)
        for launch in compiled.profile.launches
        if launch.kind is LaunchKind.KERNEL
    }
    wanted = {
        (number, kernel.launch) for number, graph in enumerate(compiled.generated) for kernel in graph.kernels
    }
    assert keys == wanted
    assert GapKind.GUARDS in {gap.kind for gap in compiled.profile.gaps}
    for graph in compiled.generated:
        for kernel in graph.kernels:
            assert kernel.text_key is None or kernel.text_key in report.texts


def test_each_generated_kernel_was_run_alone_as_well(measured: Measured) -> None:
    compiled = measured.configurations[1]
    assert compiled.profile is not None
    alone = {(launch.graph, launch.launch): launch.isolated_us for launch in compiled.profile.launches}
    for number, graph in enumerate(compiled.generated):
        for kernel in graph.kernels:
            us = alone[number, kernel.launch]
            assert (us is not None) is (kernel.text_key is not None)
            assert us is None or us > 0


def test_eager_operators_are_on_their_lines(measured: Measured) -> None:
    profile = measured.configurations[0].profile
    assert profile is not None
    lines = {launch.operator: launch.stack[-1].line for launch in profile.launches if launch.stack}
    assert lines["aten::sin"] == WRONG_LINE


def test_results_are_compared_and_the_first_line_that_differs_is_named(report: Report) -> None:
    configurations = rows(report)
    right, wrong = configurations[COMPILED].accuracy, configurations["backend:wrong"].accuracy
    assert right is not None
    assert right.passed is True
    assert right.against == "float64"
    assert right.tensors[0].cosine == pytest.approx(1.0)
    assert wrong is not None
    assert wrong.passed is False
    assert wrong.first[-1].line == WRONG_LINE
    assert "sin" in wrong.first_operator
    assert configurations["backend:wrong"].compiles == 2, "what is compiled to find an error does not count"


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("backend:dies", "signal", "SIGSEGV"),
        ("backend:lacks_memory", "memory", "no memory for the kernels"),
        ("backend:nope", "backend", "nope"),
    ],
)
def test_each_failure_is_a_row_with_its_reason(report: Report, name: str, kind: str, words: str) -> None:
    row = rows(report)[name]
    assert row.wall is None
    assert row.failure is not None
    assert row.failure.kind == kind
    assert words in row.failure.message
    assert row.failure.next_step


def test_a_hanging_configuration_is_ended_with_its_line(live: LiveWorker) -> None:
    report = measure(
        live,
        MODEL,
        "Net",
        configurations=("backend:hangs",),
        limit_seconds=8.0,
        accuracy=False,
        profile=False,
    )
    eager, hanging = report.measured.configurations if report.measured else ()
    assert eager.wall is not None
    assert hanging.failure is not None
    assert hanging.failure.kind == "timeout"
    assert re.search(r"at model.py:1[67]$", hanging.failure.message)
    assert "fuselight.bench.timeLimit" in hanging.failure.next_step


def test_a_configuration_without_memory_was_measured_again_separately(report: Report) -> None:
    assert rows(report)["backend:lacks_memory"].alone


@pytest.mark.parametrize(
    ("plan", "kind", "culprit", "words"),
    [
        ({"configurations": ("reduce-overhed",)}, "configuration", Culprit.USER, "'reduce-overhead'"),
        ({"device": "cuda:99"}, "device", Culprit.ENVIRONMENT, "cuda"),
    ],
)
def test_a_process_that_cannot_start_fails_the_benchmark(
    live: LiveWorker, plan: dict[str, object], kind: str, culprit: Culprit, words: str
) -> None:
    report = measure(live, MODEL, "Net", **plan)
    failure = report.failures[0]
    assert (failure.kind, failure.culprit) == (kind, culprit)
    assert words in f"{failure.message} {failure.next_step}".lower()
    assert failure.next_step


def test_a_target_without_inputs_asks_for_them(live: LiveWorker) -> None:
    report = measure(
        live, "import torch\ndef f(x):\n    return x\nif __name__ == '__main__':\n    print(1)\n", "f"
    )
    assert report.failures[0].kind == "inputs"
    assert "the `__main__` block does not call f" in report.failures[0].message
    assert "# fuselight:" in report.failures[0].next_step


MAIN = """\
import torch
class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
    def forward(self, x, *, scale=1.0):
        return self.linear(x).sin() * scale
if __name__ == "__main__":
    model = torch.compile(Net(8)).eval()
    with torch.no_grad():
        for step in range(3):
            model(torch.randn(4, 8), scale=2.0)
            assert not step, "runs on after the first call"
"""


def test_the_first_call_of_the_main_block_gives_inputs(live: LiveWorker) -> None:
    report = measure(live, MAIN, "Net", configurations=EAGER_ALONE, profile=False)
    assert report.failures == ()
    assert report.inputs is not None
    assert (report.inputs.rung, report.inputs.calls[0].text) == (Rung.MAIN, "Net(f32[4, 8], scale=2.0)")
    assert report.inputs.calls[0].location is not None
    assert report.inputs.calls[0].location.line == 12
    assert all(row.wall is not None for row in rows(report).values())


def test_a_capture_of_the_main_block_records_inputs_for_a_benchmark(live: LiveWorker) -> None:
    source = MAIN.replace("            assert not step", "            print")
    captured = live.analyse(source, "")
    assert captured.failures == ()
    (recorded,) = captured.recorded
    assert (recorded.target, recorded.text) == ("Net", "Net(size=8)(f32[4, 8], scale=2.0)")
    source = source.split("if __name__")[0]
    request = live.request(source, "Net", recorded=(recorded.text,))
    plan = MeasurePlan(EAGER_ALONE, seconds=0.02, rounds=2, device="cpu", profile=False, accuracy=False)
    report = live.report(request.of_kind(MeasureRequest, plan=plan))
    assert report.failures == ()
    assert report.inputs is not None
    assert report.inputs.rung is Rung.RECORDED


def test_a_main_block_is_not_benchmarked(live: LiveWorker) -> None:
    source = "def f(x):\n    return x\nif __name__ == '__main__':\n    raise SystemExit(7)\n"
    report = measure(live, source, "")
    assert [failure.kind for failure in report.failures] == ["inputs"]
    assert "`__main__` block" in report.failures[0].message


def test_fake_inputs_cannot_be_timed(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[4], fake=True)\ndef f(x):\n    return x\n"
    assert "fake" in measure(live, source, "f").failures[0].message


def test_inputs_that_are_changed_in_place_are_fresh_in_each_call(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[4])\ndef f(x):\n    x.mul_(3.0)\n"
    live.progress.clear()
    report = measure(live, source, "f", configurations=EAGER_ALONE)
    details = [progress.detail for progress in live.progress]
    assert any(text.startswith("backend:eager: compiling model.py:") for text in details), details
    assert report.measured is not None
    assert report.measured.fresh_inputs
    accuracy = rows(report)["backend:eager"].accuracy
    assert accuracy is not None
    assert accuracy.passed is True
    assert accuracy.tensors[0].what == "input 0, changed in place"


@pytest.mark.corpora
def test_a_training_model_with_dropout_is_compared_with_eagers_numbers(live: LiveWorker) -> None:
    source = (
        "import torch\nfrom torch._dynamo import register_backend\n"
        f"{WRONG}\n"
        """\
# fuselight: Net()(f32[64, 32], train=True)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)
    def forward(self, x):
        return torch.sin(torch.nn.functional.dropout(self.linear(x), 0.5, self.training))
"""
    )
    report = measure(live, source, "Net", configurations=("default", "backend:wrong"), profile=False)
    assert report.measured is not None
    assert report.measured.random
    compiled, wrong = (rows(report)[name].accuracy for name in ("default", "backend:wrong"))
    assert compiled is not None
    assert compiled.passed, compiled.why
    assert "eager's random numbers" in compiled.why
    assert any(tensor.what == "gradient of linear.weight" for tensor in compiled.tensors)
    assert wrong is not None
    assert wrong.passed is False, wrong.why
    assert "the masks of dropout held fixed" in wrong.why
    assert wrong.first_operator == "torch.sin"
    assert wrong.first[-1].line == 1 + source.splitlines().index(source.splitlines()[-1])


@pytest.mark.parametrize(
    ("drawn", "named"),
    [
        ("torch.rand_like(x)", "rand_like"),
        pytest.param(
            "torch.randint(0, 9, (64,)) + torch.empty(64).normal_()",
            "randint, normal",
            marks=pytest.mark.corpora,
        ),
        pytest.param("__import__('random').random()", "random numbers", marks=pytest.mark.corpora),
    ],
)
def test_random_numbers_that_are_no_dropout_are_not_compared(
    live: LiveWorker, drawn: str, named: str
) -> None:
    source = (
        f"import torch\nfrom torch._dynamo import register_backend\n{WRONG}\n"
        f"# fuselight: f(f32[64], train=True)\ndef f(x):\n    return torch.sin(x + {drawn})\n"
    )
    wrong = rows(measure(live, source, "f", configurations=("backend:wrong",), profile=False))[
        "backend:wrong"
    ]
    assert wrong.accuracy is not None
    assert wrong.accuracy.passed is None
    assert f"eager is nondeterministic ({named})" in wrong.accuracy.why
    assert "dropout" not in wrong.accuracy.why


@pytest.mark.corpora  # tests/worker/results/test_calls_that_are_not_wrong.py has these programs, too
@pytest.mark.parametrize("line", ["torch.softmax(x, -1).sum(-1).floor()", "torch.signbit(torch.sqrt(x - 9))"])
def test_a_value_on_a_rounding_edge_is_not_called_wrong(live: LiveWorker, line: str) -> None:
    source = f"import torch\n# fuselight: f(f32[64, 33])\ndef f(x):\n    return {line}\n"
    report = measure(live, source, "f", configurations=("default",), profile=False)
    accuracy = rows(report)["default"].accuracy
    assert accuracy is not None
    assert accuracy.passed, accuracy


def test_nothing_to_compare_says_so(live: LiveWorker) -> None:
    source = "import torch\n# fuselight: f(f32[64])\ndef f(x):\n    x + 1\n"
    accuracy = rows(measure(live, source, "f", configurations=EAGER_ALONE))["backend:eager"].accuracy
    assert accuracy is not None
    assert accuracy.passed is None
    assert "nothing to compare" in accuracy.why


def test_a_provider_is_called_once_per_process_with_the_same_seed(live: LiveWorker) -> None:
    source = (
        "import os, torch\ndrawn = torch.randn(7)\n"
        "def f(x):\n    return x.mul_(2)\n"
        "def example_inputs():\n    print('called in', os.getpid())\n    return torch.randn(64)\n"
    )
    request = live.request(source, "f", provider="example_inputs", provider_line=5)
    plan = MeasurePlan(EAGER_ALONE, rounds=3, seconds=0.02, device="cpu")
    report = live.report(request.of_kind(MeasureRequest, plan=plan))
    accuracy = rows(report)["backend:eager"].accuracy
    assert accuracy is not None
    assert accuracy.passed is True
    assert report.output is not None
    calls = Counter(line for line in report.output.stdout.splitlines() if line.startswith("called in"))
    assert len(calls) == 3, (
        "eager's, the backend's, and the reference's, which starts again after each change"
    )
    assert sorted(calls.values())[:2] == [1, 1]


def test_a_training_step_is_forward_backward_and_the_optimizer(live: LiveWorker) -> None:
    report = measure(live, MODEL, "Net", configurations=EAGER_ALONE, work=Work.TRAINING_STEP)
    assert report.measured is not None
    assert report.measured.work is Work.TRAINING_STEP
    accuracy = rows(report)["backend:eager"].accuracy
    assert accuracy is not None
    assert accuracy.passed is True
    assert "gradient of linear.weight" in {tensor.what for tensor in accuracy.tensors}


def test_a_cancel_ends_every_process(live: LiveWorker, the_next_run_works: None, tmp_path: Path) -> None:
    del the_next_run_works
    pids = tmp_path / "pids"
    source = (
        "import os, time, torch\n"
        f"with open({str(pids)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
        "# fuselight: f(f32[4])\ndef f(x):\n    time.sleep(1000)\n"
    )
    request = live.request(source, "f").of_kind(MeasureRequest, plan=MeasurePlan(accuracy=False))

    async def cancelled() -> None:
        built = asyncio.Event()

        def progress(other_progress: Progress) -> None:
            if other_progress.phase == "build":  # after the import, which records the number
                built.set()

        task = asyncio.create_task(live.worker.run(request, progress))
        await built.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    live.do(cancelled())
    numbers = [int(line) for line in pids.read_text().split()]
    assert numbers
    for pid in numbers:
        wait_gone(pid)


def test_a_broken_compiler_is_reported(live: LiveWorker) -> None:
    source = (
        "import torch\nimport torch._inductor.config\ntorch._inductor.config.cpp.cxx = (None, '/bin/false')\n"
        "# fuselight: f(f32[4])\ndef f(x):\n    return x.sin()\n"
    )
    failure = rows(measure(live, source, "f", accuracy=False, profile=False))["default"].failure
    assert failure is not None
    assert failure.culprit is Culprit.ENVIRONMENT
    assert "/bin/false" in failure.message
    assert "doctor" in failure.next_step
