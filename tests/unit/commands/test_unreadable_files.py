"""A pipe, a device or a folder in place of a file is rejected immediately, with its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.baseline import new_findings
from fuselight_server.commands.ops import read_operator_set
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.explain.benchmarks.exports import NotReadError, text_of


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("read", "error"),
    [
        (text_of, NotReadError),
        (read_operator_set, CommandError),
        (lambda path: new_findings(Path(path), (), SourceFiles()), CommandError),
    ],
    ids=["export", "operators", "baseline"],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "too large"])
def test_irregular_files_are_rejected(
    tmp_path: Path, kind: str, read: Callable[[str], object], error: type[Exception]
) -> None:
    path = tmp_path / "file.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2**30)
    answer = {"too large": r"larger than [\d,]+ bytes", "folder": "it is a folder"}
    with pytest.raises(error, match=answer.get(kind, "not a regular file")) as refused:
        read(str(path))
    assert str(path) in str(refused.value)
