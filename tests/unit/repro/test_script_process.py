"""Each release ends with an answer or a reason, with shell scripts in place of interpreters."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fuselight.shared.report import MARK, ScriptOutcome, ScriptState
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.script_process import run_program
from fuselight_server.repro.bisection import find_change


def shown(folder: Path, lines: str, seconds: float = 30.0) -> ScriptOutcome:
    """What a program shows whose interpreter does what the lines say; `$1` is the program."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{lines}\n")
    python.chmod(0o755)
    run = run_program(
        Interpreter(str(python)), "the program\n", seconds, {**os.environ, "PYTHONPATH": "here"}
    )
    return asyncio.run(run)


@pytest.mark.parametrize(
    ("lines", "state", "words"),
    [
        ('grep -q "the program" "$1"', ScriptState.RIGHT, ""),
        ('test -z "$PYTHONPATH"', ScriptState.RIGHT, ""),
        (f'echo "{MARK}they differ" >&2; exit 1', ScriptState.FAULT, "they differ"),
        ('echo "Timeout (0:01:00)!" >&2; exit 1', ScriptState.FAULT, "Timeout (0:01:00)!"),
        ('echo "ImportError: no NumPy" >&2; exit 1', ScriptState.ERROR, "ImportError: no NumPy"),
        (f'echo "{MARK}they differ" >&2; exit 3', ScriptState.ERROR, f"{MARK}they differ"),
        ("exit 3", ScriptState.ERROR, "the process ended with status 3"),
        ("kill -SEGV $$", ScriptState.ERROR, "the process was killed by SIGSEGV"),
        ('echo "half" >&2; kill -KILL $$', ScriptState.ERROR, "half\nthe process was killed by SIGKILL"),
    ],
)
def test_every_end_has_a_reason(tmp_path: Path, lines: str, state: ScriptState, words: str) -> None:
    outcome = shown(tmp_path, lines)
    assert (outcome.state, outcome.text.strip()) == (state, words)


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    outcome = shown(tmp_path, f"sleep 600 & echo $! > {pid}; wait", seconds=2.0)
    assert outcome == ScriptOutcome(ScriptState.ERROR, "it took longer than 2 s")
    started = Path("/proc", pid.read_text().strip(), "stat")
    assert not started.exists() or ") Z " in started.read_text()


def test_what_is_no_program_says_so(tmp_path: Path) -> None:
    run = run_program(Interpreter(str(tmp_path / "gone")), "", 1.0, os.environ)
    outcome = asyncio.run(run)
    assert outcome.state is ScriptState.ERROR
    assert str(tmp_path / "gone") in outcome.text


def test_the_folder_of_the_program_is_not_in_its_words(tmp_path: Path) -> None:
    outcome = shown(tmp_path, f'echo "{MARK}in $1" >&2; exit 1')
    assert outcome.text == "in repro.py"


def test_each_release_has_a_row() -> None:
    outcomes = {
        "2.9": ScriptOutcome(ScriptState.RIGHT),
        "2.10": ScriptOutcome(ScriptState.ERROR, "Traceback\n  line\nthe process was killed by SIGSEGV"),
        "2.11": ScriptOutcome(ScriptState.ERROR),
        "2.12": ScriptOutcome(ScriptState.FAULT, "they differ"),
    }
    change = asyncio.run(find_change(tuple(outcomes), lambda name: asyncio.sleep(0, outcomes[name])))
    assert change.rows == (
        "2.9: right",
        "2.10: no answer: the process was killed by SIGSEGV",
        "2.11: no answer: it gave no reason",
        "2.12: wrong",
    )
