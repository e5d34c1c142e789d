"""What a run read: files, folders and what nothing can be compared with, without a trace in the user's program."""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import Reads

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
# fuselight: f(f32[4])
@torch.compile
def f(x):
    torch._dynamo.graph_break()
    open("{folder}/late.json").close()
    return x.sin() * helper.SCALE
"""


def read_by(live: LiveWorker) -> Reads:
    folder = live.folder
    (folder / "images").mkdir(exist_ok=True)
    (folder / "helper.py").write_text("SCALE = 2\n")
    for name in ("data", "other", "late"):
        (folder / f"{name}.json").write_text("{}")
    request = live.request(PROGRAM.format(folder=folder))
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


INCOMPARABLE = (
    ("import subprocess; subprocess.run(['true'])", "another process"),
    ("if os.fork() == 0: os._exit(0)", "another process"),
    ("import socket; s = socket.socket(); s.connect_ex(('127.0.0.1', 9)); s.close()", "the network"),
    ("import sqlite3; sqlite3.connect(':memory:').close()", "a database"),
    (
        "open(folder + '/data.json', 'rb').read(); open(folder + '/data.json', 'a').close()",
        "a file that it changes",
    ),
    ("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.close()", "the network"),
    (
        "os.mkfifo(folder + '/pipe'); p = os.open(folder + '/pipe', os.O_RDONLY | os.O_NONBLOCK); os.close(p)",
        "a pipe or a device",
    ),
    (  # the last: it imports a module by which a process is noticed, too
        "from multiprocessing import get_context; get_context('spawn').Process(target=len, args=('',)).start()",
        "another process",
    ),
)
RECORD_EACH = """\
import json, os, torch
from fuselight.worker.child.reads import ReadRecorder
for more in {cases!r}:
    recorder = ReadRecorder()
    recorder.start()
    exec(more, {{"os": os, "folder": {folder!r}}})
    print(json.dumps([more, recorder.result().others]))
# fuselight: f(f32[4])
def f(x):
    return x
"""


def test_what_cannot_be_compared_is_named(live: LiveWorker) -> None:
    (live.folder / "data.json").write_text("{}")
    cases = tuple(more for more, _ in INCOMPARABLE)
    request = live.request(RECORD_EACH.format(cases=cases, folder=str(live.folder)))
    report = live.report(replace(request, records_reads=True))
    assert report.failures == ()
    named = [json.loads(line) for line in report.output.stdout.splitlines() if line.startswith("[")]
    assert named == [[more, [word]] for more, word in INCOMPARABLE]
    assert report.reads is not None
    assert set(report.reads.others) == {word for _, word in INCOMPARABLE}


def test_it_is_recorded_only_if_asked(live: LiveWorker) -> None:
    report = live.analyse("import torch\n# fuselight: f(f32[4])\ndef f(x):\n    return x\n")
    assert report.reads is None


ASKS = """\
import os, pathlib, shutil, tempfile, torch
here = pathlib.Path("{folder}")
os.path.exists(here / "absent_flag")
(here / "kind_only").is_file()
(here / "size_too").stat()
os.path.isdir("{folder}/size_too") or os.path.getmtime("{folder}/size_too")
os.path.isdir("{folder}/images")
os.access("{folder}/allowed", os.R_OK)
os.makedirs("{folder}/made/inner", exist_ok=True)
os.makedirs("{folder}/images", exist_ok=True)
os.path.exists("{folder}/made/inner/absent")
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "a").write_text("a")
    os.path.getsize(folder + "/a")
shutil.copy2("{folder}/size_too", "{folder}/made/copy", follow_symlinks=False)
os.stat(0)
for bad in (None, "\\0"):
    try:
        os.stat(bad)
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
assert os.stat in os.supports_follow_symlinks
# fuselight: f(f32[4])
@torch.compile
def f(x):
    x = x.sin()
    if os.path.exists("{folder}/in_compiled_code"):
        x = x.cos()
    return x * 2
"""


def test_paths_that_are_asked_for_are_recorded_with_what_was_asked(live: LiveWorker) -> None:
    folder = live.folder
    (folder / "images").mkdir(exist_ok=True)
    shutil.rmtree(folder / "made", ignore_errors=True)
    for name in ("kind_only", "size_too", "allowed"):
        (folder / name).write_text("abc")
    report = live.report(replace(live.request(ASKS.format(folder=folder)), records_reads=True))
    assert report.failures == ()
    assert report.reads is not None
    asked = {path: state for path, state in report.reads.asked.items() if path.startswith(str(folder))}
    file, time = stat.S_IFREG, (folder / "size_too").stat().st_mtime_ns
    assert asked == {
        str(folder / "absent_flag"): (0, -1, -1),
        str(folder / "kind_only"): (file, -1, -1),
        str(folder / "size_too"): (file, 3, time),
        str(folder / "images"): (stat.S_IFDIR, -1, -1),
        str(folder / "allowed"): (file, -1, -1),
        str(folder): (stat.S_IFDIR, -1, -1),
        str(folder / "made"): (0, -1, -1),
        str(folder / "in_compiled_code"): (0, -1, -1),
    }
    others = [path for path in report.reads.asked if not path.startswith(str(folder))]
    assert len(others) < 20, others
    plain = live.report(live.request(ASKS.format(folder=folder)))
    assert plain.breaks
    assert report.breaks == plain.breaks


def test_compiled_modules_change_nothing_and_count_as_their_source(live: LiveWorker) -> None:
    package = live.folder / "outside"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir()
    (package / "of_others.py").write_text("SCALE = 3\n")
    text = (
        "import os, sys, torch\n"
        f"sys.path.append({str(package)!r})\n"
        "sys.dont_write_bytecode = False\n"
        f"os.listdir({str(package)!r})\n"
        "import of_others\n"
        "# fuselight: f(f32[4])\n"
        "def f(x):\n    return x * of_others.SCALE\n"
    )
    for _ in range(2):  # the second run reads the compiled module that the first one has written
        report = live.report(replace(live.request(text), records_reads=True))
        assert report.failures == ()
        assert report.reads is not None
        inside = {path for path in (*report.reads.files, *report.files) if path.startswith(str(package))}
        assert inside == {str(package / "of_others.py")}
        assert report.reads.folders[str(package)] == package.stat().st_mtime_ns
