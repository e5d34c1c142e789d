"""Processes that tests get as forks of a zygote begin and end as those that users start."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.lsp_client import DEADLINE
from tests.support.prepared import forks, prepared_interpreter, variables
from tests.support.zygote import LAUNCH, SHARED

pytestmark = [pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="needs fork")]


def start(folder: Path, launch: str = LAUNCH, **changes: str) -> subprocess.Popen[bytes]:
    """A worker as a server starts it."""
    return subprocess.Popen(
        [prepared_interpreter(), "-X", "utf8", launch],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**variables(), **changes},
        start_new_session=True,
    )


def hello(process: subprocess.Popen[bytes]) -> bytes:
    """What the worker says when it is ready."""
    assert process.stdout is not None
    return os.read(process.stdout.fileno(), 1 << 16)


def test_a_fork_ends_by_itself_and_with_what_started_it(tmp_path: Path) -> None:
    before = forks()
    with start(tmp_path) as process:
        assert b"Hello" in hello(process)
        (fork,) = [fork for fork in forks() if fork not in before]
        assert Path(fork.cwd()) == tmp_path
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
    with start(tmp_path) as process:
        assert b"Hello" in hello(process)
        killed = [fork for fork in forks() if fork not in before]
        process.kill()
        _, alive = psutil.wait_procs(killed, timeout=DEADLINE)
        assert killed
        assert alive == []


@pytest.mark.parametrize("asks", [False, True])
def test_a_client_killed_while_it_asks_leaves_the_zygote_alive(tmp_path: Path, *, asks: bool) -> None:
    before = forks()
    place = str(Path(prepared_interpreter()).parents[1] / "socket")
    for _ in range(3):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(place)
            if asks:
                request = {"folder": str(tmp_path), "variables": variables(), "arguments": [LAUNCH]}
                with open(os.devnull, "r+b") as null:  # noqa: PTH123 - a descriptor
                    socket.send_fds(client, [json.dumps(request).encode()], [null.fileno()] * 3)
    with start(tmp_path) as process:
        assert b"Hello" in hello(process)
        process.kill()
    _, alive = psutil.wait_procs([fork for fork in forks() if fork not in before], timeout=DEADLINE)
    assert alive == []


def test_a_fork_of_another_copy_has_its_modules(tmp_path: Path) -> None:
    package = Path(LAUNCH).parents[1]
    copy = tmp_path / "compiler" / package.name
    shutil.copytree(package, copy)
    (tmp_path / "package.json").write_text('{"name": "fuselight", "version": "9.8.7"}', encoding="utf-8")
    before = forks()
    with start(tmp_path, str(copy / "worker" / "launch.py")) as process:
        assert b'"fuselight":"9.8.7"' in hello(process)
        assert len([fork for fork in forks() if fork not in before]) == 1
        process.kill()


@pytest.mark.skipif(SHARED not in os.environ, reason="this process of pytest is the only one")
def test_processes_of_pytest_fork_from_one_that_has_imported_torch(tmp_path: Path) -> None:
    before = forks()
    with start(tmp_path) as process:
        assert b"Hello" in hello(process)
        (fork,) = [fork for fork in forks() if fork not in before]
        ancestors = [ancestor.cmdline() for ancestor in fork.parents() if ancestor.pid != os.getpid()]
        process.kill()
    assert all("zygote.py" in line[4] and line[5] == "host" for line in ancestors[:2]), ancestors
    assert len(ancestors) > 2, "the process that forks here is a fork"


def test_other_variables_start_a_process(tmp_path: Path) -> None:
    before = forks()
    with start(tmp_path, TORCH_LOGS="+dynamo") as process:
        started = psutil.Process(process.pid)
        while started.cmdline()[:2] != [sys.executable, "-X"]:
            assert process.poll() is None
        assert [fork for fork in forks() if fork not in before] == []
        process.kill()
