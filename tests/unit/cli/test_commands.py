"""Each command from its arguments to its exit code, with a worker that answers from reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.protocol import DecomposeRequest, MeasureRequest
from fuselight.shared.report import Culprit, Failure, OperatorPath, Phase, Report, TargetRef, Work
from fuselight_server.base.store import Store
from fuselight_server.cli.command_line import COMMANDS, run_command
from tests.support.command import AnsweringWorker, run_cli
from tests.support.lsp_client import ROOT
from tests.support.measured import benchmark, row
from tests.support.reports import at, broken, report

TOP = ROOT
MODEL = (
    "import torch\n\n# fuselight: step(f32[4])\n@torch.compile\ndef step(x):\n    return x * x.sum().item()\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(given: Report, request: Any) -> Report:
    """A report of the target that was asked for."""
    target = request.target
    named = TargetRef(path=target.path, name=target.name, line=target.line, kind="function")
    return replace(given, target=named, roots=request.roots)


def serve(monkeypatch: pytest.MonkeyPatch, given: Any) -> AnsweringWorker:
    worker = AnsweringWorker(lambda request: answer(given(request) if callable(given) else given, request))
    worker.put_in_place(monkeypatch)
    return worker


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("command", ["bench", "tune"])
@pytest.mark.parametrize(
    ("device", "message"),
    [("h100", "`h100` names a GPU that may be absent"), ("abacus", "there is no device `abacus`")],
)
def test_a_device_that_cannot_be_timed_is_refused(command: str, device: str, message: str) -> None:
    done = run_cli(command, "model.py", "--device", device)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_baseline_fails_on_new_findings_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "model.py"

    def report_breaks(_request: Any) -> Report:
        """A break on each line that has `.item()` or `print`."""
        lines = path.read_text().splitlines()
        breaks = [
            broken(at(number, path=str(path)), gb="GB0124" if "item" in line else "GB0059")
            for number, line in enumerate(lines, 1)
            if ".item()" in line or "print" in line
        ]
        return report(breaks=tuple(breaks))

    serve(monkeypatch, report_breaks)
    written = run_cli("check", "model.py", "--write-baseline", "base.json")
    assert (written.exit_code, written.stdout) == (0, "")
    assert "accepted 1 finding in base.json" in written.stderr
    known = run_cli("check", "model.py", "--baseline", "base.json")
    assert known.exit_code == 0
    assert "1 finding in the baseline not shown." in known.stdout
    path.write_text("# a comment more\n" + MODEL.replace("return x *", "print()\n    return x *"))
    base = project / "base.json"
    data = json.loads(base.read_text())
    (target, conditions) = next(iter(data["conditions"].items()))
    data["conditions"][target] = {**conditions, "torch": "1.0"}
    base.write_text(json.dumps(data))
    changed = run_cli("check", "model.py", "--baseline", "base.json")
    assert (
        f"Changed since the baseline: torch was 1.0, now {conditions['torch']}. Findings can be new for this reason."
    ) in " ".join(changed.stdout.split())
    new = run_cli("check", "model.py", "--baseline", "base.json", "--format", "json")
    assert new.exit_code == 1
    assert [finding["code"] for finding in json.loads(new.stdout)["findings"]] == ["GB0059"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no baseline base.json. Write one with --write-baseline"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema": 3, "findings": ' + '{"a":' * 50_000, "cannot be read"),
        ("{", "cannot be read"),
        ("\xff", "cannot be read"),
        ("[1]", "is not a baseline"),
        ('{"schema": 3, "findings": {"a": "b"}}', "is not a baseline"),
        ("folder", "it is a folder"),
        ("pipe", "not a regular file"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_an_error_before_any_work(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, words: str
) -> None:
    def refuse_run(_request: Any) -> Report:
        raise AssertionError("something ran")

    serve(monkeypatch, refuse_run)
    if text == "folder":
        (project / "base.json").mkdir()
    elif text == "pipe":
        os.mkfifo(project / "base.json")
    elif text is not None:
        (project / "base.json").write_bytes(text.encode("latin-1"))
    refused = run_cli("check", "model.py", "--baseline", "base.json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1
    if text in {"folder", "pipe"}:
        unwritten = run_cli("check", "model.py", "--write-baseline", "base.json")
        assert (unwritten.exit_code, unwritten.stdout) == (2, "")
        assert "it is not a regular file" in unwritten.stderr
        missing = run_cli("check", "model.py", "--write-baseline", "no/base.json")
        assert "is no folder that you can write to" in missing.stderr


def test_a_failed_analysis_is_exit_code_2_with_the_reason_on_stderr(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "half.py").write_text("def f(:\n")
    half = run_cli("check", "half.py")
    assert half.exit_code == 2
    assert half.stderr == (
        "fuselight: cannot analyze half.py:1: syntax error, so nothing in this file was run\n"
    )
    gone = run_cli("check", "gone.py")
    assert (gone.exit_code, gone.stdout) == (2, "")
    assert "cannot analyze gone.py: there is no such file" in gone.stderr
    python = run_cli("check", "model.py", "--python", "/no/such/python")
    assert python.exit_code == 2
    assert "/no/such/python" in python.stderr
    serve(monkeypatch, report())
    name = run_cli("check", "model.py", "--target", "nothing_of_the_kind")
    assert name.exit_code == 2
    assert "cannot analyze nothing_of_the_kind: no class or function of this name" in name.stderr


@pytest.mark.parametrize("target", [(), ("--target", "net")])
def test_a_variable_runs_by_the_directives_of_the_class_that_it_compiles(
    project: Path, monkeypatch: pytest.MonkeyPatch, target: tuple[str, ...]
) -> None:
    (project / "net.py").write_text(
        "import torch\n\n# fuselight: Net(4)(f32[2, 4])\nclass Net(torch.nn.Module):\n    def __init__(self, n=8):\n"
        "        super().__init__()\n        self.linear = torch.nn.Linear(n, n)\n    def forward(self, x):\n"
        "        print(x.sum())\n        return self.linear(x)\n\nnet = torch.compile(Net())\n"
    )
    worker = serve(monkeypatch, lambda request: report(breaks=(broken(at(9, path=request.target.path)),)))
    done = run_cli("check", "net.py", *target, "--format", "json", "--tries", "0")
    (request,) = worker.requests
    assert request.target.name == "Net"
    assert [directive.text for directive in request.inputs.directives] == ["Net(4)(f32[2, 4])"]
    data = json.loads(done.stdout)
    assert [(finding["line"], finding["target"]) for finding in data["findings"]] == [(9, "Net")]
    assert data["problems"] == []


@pytest.mark.slow
def test_an_interpreter_without_torch_is_named_with_the_next_step(project: Path) -> None:
    bare = project / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=240)
    done = run_cli("check", "model.py", "--python", str(bare / "bin" / "python"))
    assert done.exit_code == 2
    assert "FL504" in done.stdout
    assert "bare/bin/python" in done.stdout


def test_ops_lists_what_a_file_of_operators_lacks_and_the_exit_code_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "layer.py"
    path.write_text(
        "import torch\n\n# fuselight: layer(f32[4, 8], f32[8, 8])\n"
        "def layer(x, weight):\n    return torch.nn.functional.linear(x, weight).tanh()\n"
    )
    (project / "mine.txt").write_text("aten.permute  # all overloads\naten.mm.default\n")
    stack = (at(5, path=str(path)),)
    calls = (
        OperatorPath("torch.nn.functional.linear", Phase.INFERENCE, stack, aten=("aten.mm.default",)),
        OperatorPath("torch.Tensor.tanh", Phase.INFERENCE, stack, aten=("aten.tanh.default",)),
    )

    def decomposed(request: DecomposeRequest) -> Report:
        known = tuple(f"{name}.default" if name.count(".") == 1 else name for name in request.operator_set)
        missing = [replace(call, lacking=tuple(set(call.aten) - set(known))) for call in calls]
        return report(operators=tuple(missing))

    worker = serve(monkeypatch, decomposed)
    done = run_cli("ops", "layer.py", "--opset", "mine.txt")
    assert done.exit_code == 1, done.stderr
    assert worker.requests[0].operator_set == ("aten.permute", "aten.mm.default")
    assert "mine.txt lacks 1 operator\n  aten.tanh × 1 for torch.Tensor.tanh\n" in done.stdout
    assert "layer.py:5  return torch.nn.functional.linear(x, weight).tanh()" in done.stdout
    (project / "mine.txt").write_text("aten.permute\naten.mm.default\naten.tanh\n")
    done = run_cli("ops", "layer.py", "--opset", "mine.txt", "--format", "json")
    assert done.exit_code == 0, done.stderr
    (target,) = json.loads(done.stdout)["targets"]
    assert (target["lacking"], target["counts"]["aten"]["aten.mm.default"]) == ([], 1)
    wrong = run_cli("ops", "layer.py", "--opset", "coreaten")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "`coreaten` is neither a set (core-aten, prims, inductor)" in wrong.stderr


def test_a_benchmark_measures_the_request_and_saves_the_result(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--compare", "backend:aot_eager", "--rounds", "2", "--seconds", "0.1", "--no-profile", "--train")
    worker = serve(monkeypatch, benchmark(row("eager", 300.0), row("backend:aot_eager", 290.0)))
    done = run_cli("bench", "model.py", "--device", "cpu", *asked, "--format", "json")
    assert done.exit_code == 0, done.stderr
    (request,) = worker.requests
    assert isinstance(request, MeasureRequest)
    plan = request.plan
    assert plan.configurations == ("eager", "backend:aot_eager")
    assert (plan.work, plan.rounds, plan.seconds, plan.profile, plan.accuracy, plan.device) == (
        Work.FORWARD_BACKWARD, 2, 0.1, False, True, "cpu",
    )  # fmt: skip
    (target,) = json.loads(done.stdout)["targets"]
    assert [configuration["name"] for configuration in target["page"]["configurations"]] == [
        "eager",
        "backend:aot_eager",
    ]
    (kept,) = (project / ".fuselight" / "bench").glob("*/*.json.gz")
    assert kept.name.removesuffix(".json.gz") == target["run"]["past"]["id"]


def test_a_benchmark_that_fails_or_has_no_target_reports_the_next_step(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, report(failures=(Failure(Culprit.USER, "exception", "ValueError: no", "Fix it."),)))
    done = run_cli("bench", "model.py", "--target", "step", "--target", "missing")
    assert done.exit_code == 2
    assert "model.py: step\n" in done.stdout or "model.py: step - " in done.stdout
    assert "failed: ValueError: no. Fix it." in done.stdout
    assert "cannot measure missing: no class or function of this name in model.py" in done.stderr
    assert not (project / ".fuselight" / "bench").exists()


def test_a_device_that_does_not_exist_offers_the_nearest(project: Path) -> None:
    done = run_cli("kernels", str(project / "model.py"), "--device", "h300")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "h200" in done.stderr


def test_the_version_is_that_of_the_manifest() -> None:
    manifest = json.loads((TOP / "package.json").read_text(encoding="utf-8"))
    assert run_cli("--version").stdout == f"fuselight {manifest['version']}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    done = run_cli(command, "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"usage: fuselight {command}" in done.stdout
    assert COMMANDS[command].split()[0] in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("chek", "model.py"), "there is no command chek; did you mean check?"),
        (("check", "model.py", "--formt", "json"), "there is no option --formt; did you mean --format?"),
        (("check", "model.py", "--size", "batch"), "`batch` is not NAME=N, such as batch=4"),
        (
            ("check", "model.py", "--time-limit", "-1"),
            "--time-limit: `-1` is not a number of at least 0",
        ),
        (("bench", "model.py", "--rounds", "1"), "--rounds: `1` is not a whole number of at least 2"),
        (("kernels", "model.py", "--why", "7"), "`7` is not LINE:LINE, such as 12:13"),
        (("check",), "the following arguments are required: PATH"),
        (("run",), "no script was given"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_wrong_argument_is_named_with_a_suggestion(arguments: tuple[str, ...], expected: str) -> None:
    done = run_cli(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert expected in done.stderr


def test_a_file_of_sarif_is_made_with_its_folder_or_refused_before_a_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Any] = []
    (project / "model.py").write_text(MODEL)

    def answer(request: Any) -> Report:
        runs.append(request)
        return report()

    serve(monkeypatch, answer)
    for wrong, reason in ((".", "it is a folder. Name a file in it."), ("model.py/x.sarif", "exists")):
        done = run_cli("check", "model.py", "--sarif", wrong)
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"`{wrong}` cannot be written: " in done.stderr
        assert reason in done.stderr
    assert runs == []
    done = run_cli("check", "model.py", "--sarif", "out/new/x.sarif")
    assert done.exit_code == 0
    assert json.loads((project / "out" / "new" / "x.sarif").read_text())["runs"]
    assert len(runs) == 1


ESCAPE = "\x1b[2J"


def test_no_escape_sequence_of_a_name_reaches_the_terminal(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / f"{ESCAPE}.py"
    path.write_text(MODEL)
    (project / f"{ESCAPE}half.py").write_text("def f(:\n")
    broke = broken(at(6, path=str(path), function=f"f{ESCAPE}"), at(6, path=str(path), function="g"))
    serve(monkeypatch, lambda _request: report(breaks=(broke,)))
    for options in ((), ("--format", "github"), ("--format", "json"), ("--format", "sarif")):
        done = run_cli("check", ".", *options)
        assert "half.py" in done.stdout + done.stderr
        assert "\x1b" not in done.stdout + done.stderr, options
    for wrong in (
        ("check", f"{ESCAPE}gone.py"),
        ("check", "x", f"--{ESCAPE}"),
        (ESCAPE,),
        ("ops", "x", "--opset", ESCAPE),
    ):
        done = run_cli(*wrong)
        assert done.exit_code == 2
        assert "\x1b" not in done.stdout + done.stderr, wrong


_HEAVY = {
    *("rich", "typer", "click", "pydantic", "libcst", "pygls", "lsprotocol", "attrs", "torch", "tree_sitter"),
    "importlib.metadata",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "unwanted"),
    [("check", _HEAVY), ("open", {*_HEAVY, "fuselight_server.explain", "fuselight.shared.report"})],
)
def test_the_help_of_a_command_imports_nothing_of_others(command: str, unwanted: set[str]) -> None:
    """A check starts with the standard library, the findings, and the parser of sources once the worker starts."""
    program = (
        "import sys; from fuselight_server.cli.command_line import run_command\n"
        f"try: run_command([{command!r}, '--help'])\nexcept SystemExit: pass\n"
        f"print(sorted({unwanted!r} & set(sys.modules)), file=sys.stderr)"
    )
    path = os.pathsep.join([str(TOP / "compiler"), str(TOP / "server")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "[]\n"


def run_in(project: Path, script: str) -> subprocess.CompletedProcess[str]:
    """`fuselight run` in a process, with a shell script for an interpreter: its arguments end with the program."""
    (project / "train.py").touch()
    python = project / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    path = os.pathsep.join([str(TOP / "compiler"), str(TOP / "server")])
    return subprocess.run(
        [sys.executable, "-m", "fuselight_server", "run", "--python", str(python), "train.py", "--lr", "1"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_program_ended_by_sigkill_is_not_an_internal_error(project: Path) -> None:
    done = run_in(project, "kill -KILL $$")
    assert done.returncode == -signal.SIGKILL
    assert "Traceback" not in done.stderr
    assert "the program was killed (SIGKILL), which is what happens when memory runs out" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_program_ended_by_a_signal_keeps_its_findings_and_ends_the_command(
    project: Path,
) -> None:
    path = project / "model.py"
    left = report(breaks=(broken(at(6, path=str(path))),), roots=(str(project),))
    (project / "left.json").write_text(json.dumps(encode(left)))
    # launch.py run --report FILE --root FOLDER -- train.py --lr 1
    done = run_in(project, 'cp left.json "$4"; echo "$@" > given.txt; kill -TERM $$')
    assert done.returncode == -signal.SIGTERM
    assert "warning[GB0170]" in done.stderr
    assert (project / "given.txt").read_text().rstrip().endswith("-- train.py --lr 1")
    kept = Store.at(project).read_report()
    assert kept is not None
    assert kept.breaks == left.breaks


@pytest.mark.parametrize("module", ["cli.command_line", "cli.tune"])
def test_ctrl_c_during_the_imports_of_a_command_is_quiet(module: str) -> None:
    """Raise KeyboardInterrupt where a module is imported, as Ctrl-C in the first second does."""
    name = f"fuselight_server.{module}"
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from fuselight_server import main
sys.exit(main())
"""
    command = [sys.executable, "-c", code, "tune", "model.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fuselight: stopped\n")


def test_a_reader_that_has_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `fuselight --version | head -0`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", buffering=1, encoding="utf-8") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert run_command(["--version"]) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "absent.py",
            "`absent.py`: there is no such file. Name the program, as in `fuselight run train.py`.",
        ),
        ("folder", "`folder` is a folder without `__main__.py`. Name the program in it."),
    ],
)
def test_a_program_that_python_cannot_run_is_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    result = run_cli("run", name)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"fuselight: {words}\n")


def test_a_file_that_cannot_be_read_is_said_without_the_name_of_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("x = 1\n")
    (tmp_path / "folder").mkdir()
    result = run_cli("verify", "m.py", "--new", "folder")
    assert result.stderr == "fuselight: `folder`: it is a folder. Name a file that can be read.\n"
    result = run_cli("fix", "absent.py")
    assert (result.stdout, result.stderr) == ("", "fuselight: cannot fix absent.py: there is no such file\n")
