"""Capture of a model on a real CUDA device.

Also a script, for a machine that has torch but no pytest: `python tests/gpu/test_capture_on_gpu.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # pytest has its own way to find the package
    sys.path.insert(0, str(Path(__file__).parent.parent.parent / "compiler"))

import torch
from torch import nn

from fuselight.capture.dynamo import Parts, Recorder, capture_backend
from fuselight.shared.report import Outcome

HERE = str(Path(__file__).parent)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        if hidden.sum().item() > 0:  # the break of this test
            hidden = hidden * 2
        out: torch.Tensor = self.second(hidden)
        return out


BREAK_LINE = Net.forward.__code__.co_firstlineno + 2


def captured(function: Callable[[torch.Tensor], torch.Tensor], *inputs: torch.Tensor) -> Parts:
    torch.compiler.reset()
    with Recorder(roots=(HERE,)) as recorder, torch.no_grad():
        compiled = torch.compile(function, backend=capture_backend)
        for index, value in enumerate(inputs):
            with recorder.call(index):
                compiled(value)
    return recorder.parts()


def test_a_break_on_the_device_is_on_its_line() -> None:
    parts = captured(Net().eval().cuda(), torch.randn(8, 16, device="cuda"))
    assert {graph_break.stack[-1].line for graph_break in parts.breaks} == {BREAK_LINE}
    assert any(compiled.outcome is Outcome.COMPILED for compiled in parts.compiles)
    assert not parts.problems


def test_a_new_shape_on_the_device_recompiles() -> None:
    parts = captured(
        lambda x: x.sin() + 1, torch.randn(4, 16, device="cuda"), torch.randn(7, 16, device="cuda")
    )
    assert len(parts.recompiles) == 1
    assert "was 4, now 7" in parts.recompiles[0].entries[0].failures[0].difference


def test_another_device_recompiles() -> None:
    parts = captured(lambda x: x.cos() * 2, torch.randn(4, 16, device="cuda"), torch.randn(4, 16))
    assert len(parts.recompiles) == 1
    failure = parts.recompiles[0].entries[0].failures[0]
    assert failure.kind == "TENSOR_MATCH"
    assert failure.difference


def test_the_recorded_model_gives_the_eager_result() -> None:
    model = Net().eval().cuda()
    x = torch.randn(8, 16, device="cuda")
    torch.compiler.reset()
    with Recorder(roots=(HERE,)), torch.no_grad():
        result = torch.compile(model, backend=capture_backend)(x)
        torch.testing.assert_close(result, model(x))


def _main() -> int:
    if not torch.cuda.is_available():
        print("left out: torch sees no CUDA device on this machine")  # noqa: T201 - as a script it has no other voice
        return 0
    tests = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
        print(f"passed {test.__name__}", flush=True)  # noqa: T201 - as above
    print(f"{len(tests)} passed, 0 failed, torch {torch.__version__}")  # noqa: T201 - as above
    return 0


if __name__ == "__main__":
    sys.exit(_main())
