"""When `fuselight check` starts a worker, and the end of a worker that is not needed or cannot start."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from pathlib import Path

import psutil
import pytest

from fuselight.shared.report import TargetRef
from fuselight.shared.version import untested_torch
from fuselight.shared.worker_launch import launch_path
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import RemedyState
from fuselight_server.base.terminal import Color, Terminal
from fuselight_server.cli import check
from fuselight_server.commands.check import analyze, fix_command
from fuselight_server.commands.known_fixes import list_fixes, reports_of
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.execution.interpreters import NoInterpreterError
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites import families
from fuselight_server.fixes.rewrites.families import Rewrites
from tests.support.command import run_cli
from tests.support.reports import at, broken, report

HELLO = """\
import os, sys
sys.path.insert(0, {compiler!r})
from fuselight.shared.protocol import PROTOCOL, Hello, to_json
from fuselight.shared.report import Versions
from fuselight.shared import wire
versions = Versions("3.11.7", "2.16.0+cpu", None, "0.1.0", "linux", sys.executable)
os.write(1, wire.frame(wire.dump(to_json(Hello(PROTOCOL, versions, os.getpid(), True)))))
os.read(0, 1 << 20)
"""
TARGET = "import torch\n\n@torch.compile\ndef f(x):\n    return x\n"
WITH_INPUTS = TARGET.replace("@torch", "# fuselight: f(f32[4])\n@torch")


def interpreter(folder: Path, script: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def checked(folder: Path, text: str, python: str) -> CheckOutcome:
    (folder / "model.py").write_text(text)
    options = CommandOptions((folder / "model.py",), python=python)
    return asyncio.run(analyze(options, lambda _text: None, CancelToken()))


def test_a_file_without_targets_needs_no_interpreter(tmp_path: Path) -> None:
    outcome = checked(tmp_path, "import math\n", "/no/such/python")
    assert (outcome.findings, outcome.problems) == ([], [])


def test_a_directive_needs_a_target(tmp_path: Path) -> None:
    with pytest.raises(NoInterpreterError, match="/no/such/python"):
        checked(tmp_path, TARGET, "/no/such/python")


def test_an_unneeded_worker_is_ended(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "exec sleep 600")
    outcome = checked(tmp_path, "import re\nPATTERN = re.compile('x')\n", python)
    assert outcome.reports == []
    children = psutil.Process().children(recursive=True)
    assert [child for child in children if child.status() != psutil.STATUS_ZOMBIE] == []


def test_a_worker_that_cannot_start_is_reported_with_the_reason_of_its_choice(tmp_path: Path) -> None:
    outcome = checked(tmp_path, WITH_INPUTS, interpreter(tmp_path, "echo broken beyond repair >&2; exit 1"))
    assert [finding.code for finding in outcome.findings] == ["FL504"]
    assert "comes from --python" in outcome.findings[0].title
    assert outcome.exit_code == 2


@pytest.mark.slow
def test_an_untested_torch_is_reported_once_on_stderr(tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text(HELLO.format(compiler=str(Path(launch_path()).parents[2])))
    (tmp_path / "model.py").write_text(WITH_INPUTS * 2)
    python = interpreter(tmp_path, f"exec {sys.executable} {script}")
    result = run_cli("check", str(tmp_path / "model.py"), "--python", python)
    assert result.stderr == f"fuselight: {untested_torch('2.16.0')}\n"


BROKEN = """\
import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        x = x * 2
    print(x.shape, file=None)
    return x
"""


@pytest.mark.parametrize(
    ("place", "code", "command"),
    [
        ((6, (7, 18)), "GB0170", "fuselight fix 'a model.py' --target f"),
        ((8, (4, 29)), "GB0059", "fuselight fix 'a model.py' --target f --allow-behavior-changes"),
        ((9, (4, 12)), "GB0023", ""),
    ],
)
def test_a_check_ends_with_the_command_that_tries_a_known_fix(
    place: tuple[int, tuple[int, int]],
    code: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "a model.py"
    path.write_text(BROKEN)
    broke = broken(at(*place, path=str(path), function="f"), gb=code)
    given = report(target=TargetRef(str(path), "f", 5, "function"), breaks=(broke,))
    outcome = CheckOutcome(findings=list(findings(given)), reports=[given])
    monkeypatch.chdir(tmp_path)
    assert fix_command(outcome) == "", "no fix is listed yet"
    list_fixes(outcome)
    assert fix_command(outcome, ("f", "g")) == command
    assert fix_command(outcome, ("f",), ("--run", "a b")) == (command and f"{command} -- --run 'a b'")
    path.unlink()
    gone = CheckOutcome(findings=list(findings(given)), reports=[given])
    list_fixes(gone)
    assert fix_command(gone) == ""


def test_the_command_is_that_of_the_line_to_fix_first_in_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reports = []
    for name, count in (("one.py", 1), ("two.py", 2)):
        path = tmp_path / name
        path.write_text(BROKEN)
        broke = [
            broken(at(6, (7, 18), path=str(path), function="f"), gb="GB0170"),
            broken(at(6, (7, 18), path=str(path), function="f"), gb="GB0059"),
        ]
        target = TargetRef(str(path), "f", 5, "function")
        reports.append(report(target=target, breaks=tuple(broke[:count])))
    actual_findings = [finding for given in reports for finding in findings(given)]
    outcome = CheckOutcome(findings=actual_findings, reports=reports)
    list_fixes(outcome)
    assert fix_command(outcome) == "fuselight fix two.py", (
        "it has more breaks, and `f` of one.py is another function"
    )


def test_a_finding_is_of_the_program_that_ran_its_file(tmp_path: Path) -> None:
    """Not of the first program whose target has the same name, as `__main__`."""
    layers = str(tmp_path / "layers.py")
    broke = broken(at(6, (7, 18), path=layers, function="f"))
    first, second = (
        report(
            target=TargetRef(str(tmp_path / name), "", 5, "main"),
            breaks=breaks,
            files=dict.fromkeys(files, "hash"),
            roots=(str(tmp_path),),
        )
        for name, breaks, files in (("first.py", (), ()), ("second.py", (broke,), (layers,)))
    )
    (finding,) = findings(second)
    assert reports_of(finding, CheckOutcome(findings=[finding], reports=[first, second])) == [second]


def test_a_finding_is_printed_before_the_fixes_of_the_next_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "model.py")
    (tmp_path / "model.py").write_text(BROKEN)
    lines = (6, 8)
    broke = tuple(broken(at(line, path=path, function="f"), gb="GB0059") for line in lines)
    given = report(target=TargetRef(path, "f", 5, "function"), breaks=broke)
    outcome, out = CheckOutcome(findings=list(findings(given)), reports=[given]), io.StringIO()
    printed: list[tuple[int, int]] = []

    def look_up(finding: Finding, *_given: object) -> Rewrites:
        printed.append((finding.span.line, out.getvalue().count("warning[GB0059]")))
        return Rewrites()

    monkeypatch.setattr(families, "rewrites", look_up)
    monkeypatch.setattr(check, "standard_output", lambda color: Terminal(out, color=color))
    options = argparse.Namespace(
        color=Color.NEVER, format="text", facts=False, link="", target=None, arguments=()
    )
    check._print(outcome, options, None)
    assert printed == [(6, 0), (8, 1)]


def test_a_check_and_a_fix_refuse_a_setting_by_the_breaks_of_all_targets(tmp_path: Path) -> None:
    path = str(tmp_path / "model.py")
    (tmp_path / "model.py").write_text(CHOOSING)
    breaks = {"f": at(6, path=path, function="f"), "g": at(10, path=path, function="g")}
    reports = [
        report(
            target=TargetRef(path, name, 5, "function"),
            files={path: ""},
            breaks=(broken(line, gb="GB0124"),),
        )
        for name, line in breaks.items()
    ]
    outcome = CheckOutcome(findings=[*findings(reports[0])], reports=reports)
    list_fixes(outcome)
    states = {fix.kind: fix.state for fix in outcome.findings[0].remedies}
    assert states["capture_scalar_outputs"] is RemedyState.REFUSED
    alone = CheckOutcome(findings=[*findings(reports[0])], reports=reports[:1])
    list_fixes(alone)
    assert {fix.kind: fix.state for fix in alone.findings[0].remedies} != states


CHOOSING = """\
import torch


@torch.compile
def f(x):
    return x * x.sum().item()

@torch.compile
def g(x, y):
    return x * max(x.max().item(), y.max().item())
"""
