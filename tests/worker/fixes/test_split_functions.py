"""A fix that splits a function which a program compiles is compared by the calls that the program makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import run_cli
from tests.support.prepared import prepared_interpreter

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch


@torch.compile
def scaled(x, lr):
    return torch.sin(x) * lr


class Net(torch.nn.Module):
    def forward(self, x):
        return self.step(x, 0.5) + self.step(x, 0.25)

    @torch.compile
    def step(self, x, rate):
        return x.cos() * rate


if __name__ == "__main__":
    for lr in (0.1, 0.3):
        scaled(torch.ones(3), lr)
    Net()(torch.ones(3))
"""


def test_decorated_functions_and_methods_of_a_program_take_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    done = run_cli("fix", "program.py", "--python", prepared_interpreter(), "--color", "never")
    lines = [line for line in done.stdout.splitlines() if "as a tensor " in line and " passed " in line]
    assert [line.split()[0] for line in lines] == ["program.py:6", "program.py:15"], done.stdout
    of_program = ["2 -> 1 recompilations, same results", "1 -> 0 recompilations, same results"]
    assert [text in line for text, line in zip(of_program, lines, strict=True)] == [True, True], done.stdout
