"""The command as a user runs it: a process, real torch, real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

TOP = Path(__file__).resolve().parents[2]
DEADLINE = 240

MODEL = """\
import torch

# fuselight: step(f32[4])
# fuselight: step(f32[7])
@torch.compile
def step(x):
    return x * x.sum().item()
"""

PROGRAM = """\
import os, signal, sys
import torch

@torch.compile(backend="eager")
def step(x):
    return x * 2

if __name__ == "__main__":
    step(torch.ones(4))
    step(torch.ones(7))
    print(sys.argv, __name__, sys.path[0], sys.stdin.read())
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(int(sys.argv[1]))
"""


def fuselight(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TOP / "compiler"), str(TOP / "server")])
    return subprocess.run(
        [sys.executable, "-m", "fuselight_server", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def check(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return fuselight("check", "--python", sys.executable, *arguments, cwd=cwd)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_json_has_the_findings_on_their_lines_and_the_exit_code_says_so(project: Path) -> None:
    done = check("model.py", "--format", "json", cwd=project)
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert data["problems"] == []
    found = {one["code"]: one for one in data["findings"]}
    assert set(found) == {"GB0124", "FL201"}
    assert (found["GB0124"]["line"], found["GB0124"]["column"]) == (7, 16)
    assert "directive on line 4: step(f32[7])" in {one["inputs"] for one in data["findings"]}
    (target,) = data["targets"]
    assert (target["name"], target["rung"]) == ("step", "directive")


def test_a_baseline_fails_on_new_findings_only(project: Path) -> None:
    written = check("model.py", "--write-baseline", "base.json", cwd=project)
    assert written.returncode == 0, written.stderr
    known = check("model.py", "--baseline", "base.json", cwd=project)
    assert known.returncode == 0, known.stdout + known.stderr
    moved = "# a comment more\n" + MODEL.replace("return x *", "print()\n    return x *")
    (project / "model.py").write_text(moved)
    new = check("model.py", "--baseline", "base.json", "--format", "json", cwd=project)
    assert new.returncode == 1
    assert [one["code"] for one in json.loads(new.stdout)["findings"]] == ["GB0059"]


def test_what_cannot_be_analysed_is_exit_code_2_with_the_reason(project: Path) -> None:
    (project / "half.py").write_text("def f(:\n")
    half = check("half.py", cwd=project)
    assert half.returncode == 2
    assert half.stdout.endswith(":1: it does not parse, so nothing in this file was run\n")
    gone = check("gone.py", cwd=project)
    assert gone.returncode == 2
    assert "gone.py" in gone.stdout
    name = check("model.py", "--target", "nothing_of_the_kind", cwd=project)
    assert name.returncode == 2
    assert "nothing_of_the_kind" in name.stdout
    python = fuselight("check", "model.py", "--python", "/no/such/python", cwd=project)
    assert python.returncode == 2
    assert "/no/such/python" in python.stderr


@pytest.mark.parametrize("target", [(), ("--target", "net")])
def test_a_variable_is_told_by_the_directives_of_the_class_that_it_compiles(
    project: Path, target: tuple[str, ...]
) -> None:
    (project / "net.py").write_text(
        "import torch\n\n# fuselight: Net(4)(f32[2, 4])\nclass Net(torch.nn.Module):\n    def __init__(self, n=8):\n"
        "        super().__init__()\n        self.linear = torch.nn.Linear(n, n)\n    def forward(self, x):\n"
        "        print(x.sum())\n        return self.linear(x)\n\nnet = torch.compile(Net())\n"
    )
    done = check("net.py", *target, "--format", "json", cwd=project)
    data = json.loads(done.stdout)
    assert [(one["line"], one["target"]) for one in data["findings"]] == [(9, "Net")]
    assert [(one["name"], one["rung"], one["calls"]) for one in data["targets"]] == [
        ("Net", "directive", ["Net(4)(f32[2, 4])"])
    ]
    assert data["problems"] == []


def test_an_interpreter_without_torch_is_named_with_the_next_step(project: Path) -> None:
    bare = project / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=DEADLINE)
    done = fuselight("check", "model.py", "--python", str(bare / "bin" / "python"), cwd=project)
    assert done.returncode == 2
    assert "FL504" in done.stdout
    assert "bare/bin/python" in done.stdout


def test_a_file_in_another_encoding_has_its_columns_in_characters(project: Path) -> None:
    text = "# coding: latin-1\n" + MODEL.replace("return x *", "return '\u00e9' and x *")
    (project / "model.py").write_bytes(text.encode("latin-1"))
    done = check("model.py", "--format", "json", cwd=project)
    (broke,) = [one for one in json.loads(done.stdout)["findings"] if one["code"] == "GB0124"]
    assert (broke["line"], broke["column"]) == (8, 24)


def test_a_program_runs_as_under_python_its_findings_come_after_it_and_its_inputs_serve_a_check(
    project: Path,
) -> None:
    done = fuselight(
        "run", "--python", sys.executable, "program.py", "3", "--flag", cwd=project, stdin="hello"
    )
    assert done.returncode == 3
    assert done.stdout == f"['program.py', '3', '--flag'] __main__ {project} hello\n"
    assert "warning[FL201]: recompiled: x.size(0) was 4, now 7" in done.stderr
    assert "program.py:6:" in done.stderr
    assert (project / ".fuselight" / "last-run.json").is_file()
    done = check("program.py", "--format", "json", cwd=project)
    data = json.loads(done.stdout)
    assert [one["code"] for one in data["findings"]] == ["FL201"]
    (target,) = data["targets"]
    assert (target["name"], target["rung"], target["calls"]) == (
        "step",
        "recorded",
        ["step(f32[4])", "step(f32[7])"],
    )


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_program_that_a_signal_ends_leaves_its_findings_and_the_command_ends_of_it_too(
    project: Path,
) -> None:
    done = fuselight("run", "--python", sys.executable, "program.py", "kill", cwd=project)
    assert done.returncode == -signal.SIGTERM
    assert "FL201" in done.stderr


def test_the_version_is_that_of_the_manifest(project: Path) -> None:
    manifest = json.loads((TOP / "package.json").read_text(encoding="utf-8"))
    done = fuselight("--version", cwd=project)
    assert done.stdout == f"fuselight {manifest['version']}\n"


def test_ops_says_what_a_file_of_operators_lacks_and_the_exit_code_says_so(project: Path) -> None:
    (project / "layer.py").write_text(
        "import torch\n\n# fuselight: layer(f32[4, 8], f32[8, 8])\n"
        "def layer(x, weight):\n    return torch.nn.functional.linear(x, weight).tanh()\n"
    )
    (project / "mine.txt").write_text("aten.permute  # all overloads\naten.mm.default\n")
    command = ("ops", "layer.py", "--python", sys.executable, "--opset", "mine.txt")
    done = fuselight(*command, cwd=project)
    assert done.returncode == 1, done.stderr
    assert "mine.txt lacks 1 operator\n  aten.tanh x 1 for torch.Tensor.tanh\n" in done.stdout
    assert "layer.py:5  return torch.nn.functional.linear(x, weight).tanh()" in done.stdout
    (project / "mine.txt").write_text("aten.permute\naten.mm.default\naten.tanh\n")
    done = fuselight(*command, "--format", "json", cwd=project)
    assert done.returncode == 0, done.stderr
    (target,) = json.loads(done.stdout)["targets"]
    assert (target["lacking"], target["counts"]["aten"]["aten.mm.default"]) == ([], 1)
    wrong = fuselight("ops", "layer.py", "--opset", "coreaten", cwd=project)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "coreaten is none of core-aten, prims, inductor" in wrong.stderr
