"""The script of a graph's kernels runs standalone, and distinguishes wrong kernels from correct ones."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import Device, Phase, Report
from fuselight_server.explain.kernels.documents import SCRIPT, document, key_of
from fuselight_server.explain.kernels.script import checks, standalone
from tests.support.live_worker import LiveWorker
from tests.support.prepared import program_interpreter

pytestmark = pytest.mark.torch
SOURCE = """\
import torch
# fuselight: f(f32[64, 32], f32[32, 16], train=True)
def f(x, w):
    return torch.nn.functional.gelu(x @ w) * 2
"""


@pytest.fixture(scope="module")
def report(live: LiveWorker) -> Report:
    cpu = Device("cpu", "CPU", "cpu", "", 2)
    return live.report(live.request(SOURCE, "f").of_kind(GenerateRequest, device=cpu))


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [program_interpreter(), str(path)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def run_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script as the main program of this process, which has imported torch and Inductor."""

    def run(text: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text(text, encoding="utf-8")
        code: object = 0
        with torch.random.fork_rng(devices=()):
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as end:
                code = end.code
        capture_result = capsys.readouterr()
        if not isinstance(code, int):  # Python prints it when the program ends
            return subprocess.CompletedProcess((), 1, capture_result.out, f"{capture_result.err}{code}\n")
        return subprocess.CompletedProcess((), code, capture_result.out, capture_result.err)

    return run


def script_of(report: Report, phase: Phase) -> str:
    graph = next(generated_graph for generated_graph in report.generated if generated_graph.phase is phase)
    kernel_document = document(report, key_of(graph), SCRIPT)
    assert kernel_document is not None
    return kernel_document.text


def test_the_script_checks_and_times_the_kernels_in_a_new_process(report: Report, tmp_path: Path) -> None:
    done = run(script_of(report, Phase.FORWARD), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "output 0: agrees, by " in done.stdout
    assert "DIFFERS" not in done.stdout


def test_the_script_checks_the_kernels_of_the_backward(
    report: Report, run_here: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    done = run_here(script_of(report, Phase.BACKWARD))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "output 0: agrees, by " in done.stdout
    assert "DIFFERS" not in done.stdout


def test_the_script_fails_for_a_wrong_kernel(
    report: Report, run_here: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    right = script_of(report, Phase.FORWARD)
    wrong = right.replace("0.7071067811865476", "0.6")
    assert wrong != right
    cpp, _, graph_text = wrong.partition("def captured_graph(")
    done = run_here(cpp + "def captured_graph(" + graph_text.replace("0.6)", "0.7071067811865476)"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "output 0: DIFFERS" in done.stdout
    assert "the kernels and the captured graph give different results" in done.stderr


WRAPPER = """\
import torch

{held}def call(args):
    {call}


def get_args():
    return [torch.tensor([4.0, -1.0, 9.0])]


def benchmark_compiled_module(args, times=10, repeat=10):
    print("timed")


if __name__ == "__main__":
    pass
"""


def new_script_of(call: str, graph: str, held: str = "") -> str:
    """The script of a wrapper whose kernels are `call`, of a graph `graph`."""
    text = f"def forward(self, x):\n    {graph}\n"
    wrapper = WRAPPER.format(call=call, held=held)
    assert checks(wrapper, text)
    return standalone(wrapper, text)


@pytest.mark.parametrize(
    ("call", "graph", "code", "message"),
    [
        ("return [args[0].sqrt()]", "return [x.sqrt()]", 0, "output 0: agrees, by 0 at most, of values up to 3; 1"),
        ("return [args[0].abs().sqrt()]", "return [x.sqrt()]", 1, "output 0: DIFFERS"),
        ("args[0].add_(1); return []", "x.add_(1); return []", 0, "input 0, written in place: agrees"),
        ("args[0].add_(2); return []", "x.add_(1); return []", 1, "input 0, written in place: DIFFERS"),
        ("return [args[0][:2]]", "return [x]", 1, "of shape (2,) and not (3,)"),
        ("return [torch.rand(3)]", "return [torch.ops.aten.rand.default([3])]", 0, "output 0: agrees"),
        ("return [torch.rand(3) + 5]", "return [torch.ops.aten.rand.default([3])]", 0, "not compared: it is random"),
        ("return [args[0] * 2]", "torch.ops.aten.rand.default([3]); return [x]", 1, "output 0: DIFFERS"),
    ],
)  # fmt: skip
def test_the_script_reports_agreement_of_an_output(
    call: str,
    graph: str,
    code: int,
    message: str,
    run_here: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_here(new_script_of(call, graph))
    assert done.returncode == code, done.stdout + done.stderr
    assert message in done.stdout
    assert "timed" in done.stdout


def test_a_tensor_held_by_the_graph_belongs_to_the_wrapper(
    run_here: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    call, graph = "return [args[0] + _tensor_constant0]", "return [x + self._tensor_constant0]"
    done = run_here(new_script_of(call, graph, held="_tensor_constant0 = torch.ones(3)\n\n\n"))
    assert (done.returncode, "output 0: agrees" in done.stdout) == (0, True), done.stderr
    assert not checks(WRAPPER.format(call=call, held=""), f"def forward(self, x):\n    {graph}\n")


LAUNCH = (
    "torch.ops.higher_order.triton_kernel_wrapper_{kind}(kernel_idx = 0, constant_args_idx = 2, "
    "grid = [({grid})], tma_descriptor_metadata = {{}}, kwargs = {{'x': x, 'n': 256, 'BLOCK': 64}})"
)


def test_a_user_triton_kernel_is_launched_as_in_the_wrapper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched: list[tuple[Any, ...]] = []

    def kernel(block: int) -> SimpleNamespace:
        meta = {"signature": {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, "constants": {"BLOCK": block}}
        return SimpleNamespace(
            custom_kernel=True,
            triton_meta=meta,
            run=lambda *args, stream: launched.append((block, *args, stream)),
        )

    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _index: 7, raising=False)
    names: dict[str, Any] = {"__name__": "script", "first": kernel(32), "second": kernel(64)}
    text = new_script_of("return []", f"{LAUNCH.format(kind='mutation', grid='4, 1, 1')}; return [x]")
    exec(compile(text, "script.py", "exec"), names)  # noqa: S102 - the script under test
    names["captured_graph"](None, "tensor")
    assert launched == [(64, "tensor", 256, 4, 1, 1, 7)]


@pytest.mark.parametrize(("kind", "grid"), [("functional", "4, 1, 1"), ("mutation", "4, 1, 1), (8, 1, 1")])
def test_a_launch_that_cannot_be_repeated_skips_the_check(kind: str, grid: str) -> None:
    text = f"def forward(self, x):\n    {LAUNCH.format(kind=kind, grid=grid)}; return [x]\n"
    assert not checks(WRAPPER.format(call="return []", held=""), text)
