"""The calls that a kernel has recorded: private, bounded, and of the text of a cell."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fuselight.shared.kernel_calls import (
    MAX_CALLS,
    MAX_OF_TARGET,
    KernelCall,
    KernelCalls,
    calls_of_notebook,
    calls_path,
    merged,
    read_calls,
    write_calls,
)

FIRST = KernelCall("net", "net(f32[4, 8])", "a" * 32)


def test_calls_round_trip(tmp_path: Path) -> None:
    notebook = str(tmp_path / "train.ipynb")
    path = calls_path(notebook, str(tmp_path))
    write_calls(path, KernelCalls(notebook, (FIRST,)))
    assert read_calls(path) == KernelCalls(notebook, (FIRST,))
    assert calls_of_notebook(notebook, []) == {"net": ("net(f32[4, 8])",)}
    assert calls_of_notebook(str(tmp_path / "other.ipynb"), [FIRST.cell]) == {}


def test_calls_of_an_unknown_notebook_count_for_cells_of_the_same_text(tmp_path: Path) -> None:
    write_calls(calls_path("", str(tmp_path)), KernelCalls("", (FIRST,)))
    assert calls_of_notebook(str(tmp_path / "train.ipynb"), [FIRST.cell]) == {"net": ("net(f32[4, 8])",)}
    assert calls_of_notebook(str(tmp_path / "train.ipynb"), ["b" * 32]) == {}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_file_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    path = calls_path("", str(tmp_path))
    write_calls(path, KernelCalls(""))
    assert [stat.S_IMODE(item.stat().st_mode) for item in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
    path.unlink()
    path.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"):
        write_calls(path, KernelCalls(""))
    (tmp_path / "elsewhere" / path.name).write_text('{"notebook": "", "calls": []}')
    assert read_calls(path) is None


@pytest.mark.parametrize("text", ["", "[", "[]", '{"notebook": 3}', "[" * 100_000])
def test_a_damaged_file_reads_as_absent(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calls.json"
    path.write_text(text)
    assert read_calls(path) is None


def test_a_target_with_new_calls_loses_those_of_an_earlier_text_of_its_cell() -> None:
    edited = KernelCall("net", "net(f32[2])", "b" * 32)
    other = KernelCall("step", "step()", "a" * 32)
    assert merged([FIRST, other], [edited]) == (other, edited)
    again = KernelCall("net", "net(f32[9, 8])", FIRST.cell)
    assert merged([FIRST, other], [again]) == (FIRST, other, again)


def test_calls_are_bounded_and_the_newest_stay() -> None:
    calls = [KernelCall("net", f"net({number})", "") for number in range(MAX_OF_TARGET + 3)]
    assert merged(calls, []) == tuple(calls[3:])
    many = [KernelCall(f"f{number}", "f()", "") for number in range(MAX_CALLS + 5)]
    assert merged(many, [FIRST]) == (*many[6:], FIRST)
