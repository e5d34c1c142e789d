"""What a run read: files, folders and what nothing can be compared with, without a trace in the user's program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuselight.report import Reads

if TYPE_CHECKING:
    from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

PROGRAM = """\
import json, os, pathlib, torch
import helper
try:
    import helper_of_others
except ImportError:
    pass
json.load(open("{folder}/data.json"))
pathlib.Path("{folder}/other.json").read_bytes()
os.listdir("{folder}/images")
try:
    open("{folder}/absent.txt")
except OSError:
    pass
with open("{folder}/written.txt", "w") as file:
    file.write("a")
open("{folder}/written.txt").read()
{more}
# fuselight: f(f32[4])
@torch.compile
def f(x):
    torch._dynamo.graph_break()
    open("{folder}/late.json").close()
    return x.sin() * helper.SCALE
"""


def read_by(live: LiveWorker, more: str = "") -> Reads:
    folder = live.folder
    (folder / "images").mkdir(exist_ok=True)
    (folder / "helper.py").write_text("SCALE = 2\n")
    for name in ("data", "other", "late"):
        (folder / f"{name}.json").write_text("{}")
    request = live.request(PROGRAM.format(folder=folder, more=more))
    report = live.report(replace(request, records_reads=True))
    assert report.failures == ()
    assert {Path(path).name for path in report.files} == {"model.py", "helper.py"}
    assert report.reads is not None
    return report.reads


def test_files_and_folders_are_recorded_with_their_state(live: LiveWorker) -> None:
    reads = read_by(live)
    of_user = {path: state for path, state in reads.files.items() if path.startswith(str(live.folder))}
    expected = {str(live.folder / f"{name}.json"): 2 for name in ("data", "other", "late")}
    assert {path: size for path, (size, _) in of_user.items()} == {
        **expected,
        str(live.folder / "absent.txt"): -1,
        str(live.folder / "written.txt"): 1,
    }
    for path, (_, time) in of_user.items():
        assert time == (Path(path).stat().st_mtime_ns if Path(path).exists() else 0)
    assert [path for path in reads.folders if path.startswith(str(live.folder))] == [
        str(live.folder / "images")
    ]
    assert str(live.folder) in reads.import_folders
    assert reads.others == ()
    assert any(path.endswith("torch/version.py") for path in reads.files)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ("import subprocess; subprocess.run(['true'])", "another process"),
        ("if os.fork() == 0: os._exit(0)", "another process"),
        ("import socket; s = socket.socket(); s.connect_ex(('127.0.0.1', 9)); s.close()", "the network"),
        ("import sqlite3; sqlite3.connect(':memory:').close()", "a database"),
        ("open('{folder}/data.json', 'a').close()", "a file that it changes"),
        ("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.close()", "the network"),
        (
            "from multiprocessing import get_context; get_context('spawn').Process(target=len, args=('',)).start()",
            "another process",
        ),
        (
            "os.mkfifo('{folder}/pipe'); p = os.open('{folder}/pipe', os.O_RDONLY | os.O_NONBLOCK); os.close(p)",
            "a pipe or a device",
        ),
    ],
)
def test_what_cannot_be_compared_is_named(live: LiveWorker, more: str, word: str) -> None:
    # A library may start a process of its own the first time.
    assert word in read_by(live, more.format(folder=live.folder)).others


def test_it_is_recorded_only_if_asked(live: LiveWorker) -> None:
    report = live.analyse("import torch\n# fuselight: f(f32[4])\ndef f(x):\n    return x\n")
    assert report.reads is None
