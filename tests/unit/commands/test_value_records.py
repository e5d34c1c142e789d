"""Two recordings of `fuselight run --accuracy --record`, compared by `fuselight open A --against B`."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.report import CallValues, LineSums, RecordedValue, Shadow
from fuselight.shared.shadow_files import is_recording, relative_to, write_recording
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.value_records import Likeness, compare_recordings
from tests.support.command import run_cli

VALUE = RecordedValue("output", "torch.float32", (4, 4), "aa", 0.01, 1.0, -2.0, 2.5)
LINES = (LineSums("m.py", 3, 1, (4.0, 9.0, 1.0)), LineSums("m.py", 4, 1, (4.0, 7.0, 2.0)))
CALL = CallValues("Net", 1, (VALUE,), LINES)


def recording(path: Path, *calls: CallValues, rank: int | None = None) -> Path:
    shadow = Shadow(7, rank, recorded=calls, torch="2.13.0", device="cpu")
    write_recording(str(path), [shadow])
    return path


@pytest.mark.parametrize(
    ("change", "likeness"),
    [
        ({}, Likeness.SAME),
        ({"checksum": "bb", "mean": 0.0105}, Likeness.NEAR),
        ({"checksum": "bb", "mean": 0.02}, Likeness.DIFFERENT),
        ({"checksum": "bb", "mean": 0.05, "dtype": "torch.bfloat16"}, Likeness.NEAR),
        ({"checksum": "bb", "size": 1.1}, Likeness.DIFFERENT),
        ({"checksum": "bb", "largest": 2.6}, Likeness.DIFFERENT),
        ({"checksum": "bb", "non_finite": 1}, Likeness.DIFFERENT),
        ({"shape": (16,)}, Likeness.DIFFERENT),
        ({"checksum": "bb", "size": math.nan}, Likeness.DIFFERENT),
    ],
)
def test_how_two_results_are_alike(tmp_path: Path, change: dict[str, object], likeness: Likeness) -> None:
    ours = recording(tmp_path / "a", replace(CALL, values=(replace(VALUE, **change),)))  # type: ignore[arg-type]
    compared = compare_recordings(ours, recording(tmp_path / "b", CALL))
    ((pair,),) = [call.values for call in compared.calls]
    assert pair.likeness is likeness
    assert compared.exit_code == int(likeness is Likeness.DIFFERENT)


def test_the_first_line_that_differs_is_named(tmp_path: Path) -> None:
    other = replace(VALUE, checksum="bb", size=2.0)
    changed = (LINES[0], replace(LINES[1], sums=(4.0, 7.0, 2.5)), replace(LINES[1], time=2))
    a = recording(tmp_path / "a", replace(CALL, values=(other,), lines=changed))
    b = recording(tmp_path / "b", CALL, replace(CALL, step=2))
    result = run_cli("open", str(a), "--against", str(b))
    assert result.exit_code == 1
    assert "1 call in both: 1 differ by more than rounding" in result.stdout
    assert "first line whose value differs in eager mode: m.py:4" in result.stdout
    assert "not compared: 1 call that only one of the two has" in result.stdout
    data = json.loads(run_cli("open", str(a), "--against", str(b), "--format", "json").stdout)
    (call,) = data["calls"]
    assert (call["differs"], call["first_line"]["line"], call["lines"], call["only_in_one"]) == (
        True,
        4,
        2,
        1,
    )


def test_what_was_compiled_differs_where_no_line_does(tmp_path: Path) -> None:
    a = recording(tmp_path / "a", replace(CALL, values=(replace(VALUE, checksum="bb", size=2.0),)))
    result = run_cli("open", str(a), "--against", str(recording(tmp_path / "b", CALL)))
    assert "in eager mode no line differs (2 operators compared): what was compiled does" in result.stdout


def test_runs_without_a_call_in_common_are_not_equal(tmp_path: Path) -> None:
    a, b = recording(tmp_path / "a", CALL), recording(tmp_path / "b", CALL, rank=1)
    assert run_cli("open", str(a), "--against", str(b)).exit_code == 2


def test_a_file_that_is_no_recording_is_an_error(tmp_path: Path) -> None:
    a, damaged = recording(tmp_path / "a", CALL), tmp_path / "b"
    damaged.write_text(a.read_text()[:60])
    assert is_recording(str(a))
    assert not is_recording(str(tmp_path / "missing"))
    with pytest.raises(CommandError, match="not a recording"):
        compare_recordings(a, damaged)
    assert "is compared with another one" in run_cli("open", str(a)).stderr


def test_a_recording_needs_accuracy_and_a_folder(tmp_path: Path) -> None:
    script = tmp_path / "t.py"
    script.touch()
    assert "Add `--accuracy`" in run_cli("run", "--record", str(tmp_path / "r"), str(script)).stderr
    away = str(tmp_path / "missing" / "r")
    assert "folder that exists" in run_cli("run", "--accuracy", "--record", away, str(script)).stderr


def test_paths_are_relative_to_the_project() -> None:
    assert relative_to("/w/project/a/m.py", ("/w", "/w/project")) == "a/m.py"
    assert relative_to("/site-packages/lib.py", ("/w",)) == "lib.py"
