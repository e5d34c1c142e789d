"""The ranks of a distributed job replay one decision: rank 0's, and only what holds on the devices of all."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sys
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

from fuselight.adapters.torch_api.inductor.job_store import JobStore
from fuselight.replay import tuned_files
from fuselight.replay.machine_key import MachineKey, machine_key
from fuselight.replay.tuned_files import TunedSources
from fuselight.shared import tuned_file
from fuselight.shared.report import Numerics, TunedResult, Work

pytestmark = pytest.mark.torch
HERE = MachineKey("CPU A", "", "2.13", "3.7")
OTHER = MachineKey("CPU B", "", "2.13", "3.7")


def result(machine: MachineKey) -> TunedResult:
    return TunedResult(
        file="model.py", target="Net", work=Work.INFERENCE, numerics=Numerics.EXACT, device=machine.device,
        capability=machine.capability, torch=machine.torch, triton=machine.triton,
    )  # fmt: skip


class Memory:
    """A store of one process: a wait for what is not there ends at once."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    def set(self, key: str, text: str) -> None:
        self.texts[key] = text.encode()

    def wait(self, keys: list[str], _: Any) -> None:
        if any(key not in self.texts for key in keys):
            raise RuntimeError("wait timeout")

    def get(self, key: str) -> bytes:
        return self.texts[key]


def test_a_result_must_hold_on_the_devices_of_all_ranks(tmp_path: Path) -> None:
    tuned_file.keep(tmp_path / tuned_file.NAME, [result(HERE)])
    memory = Memory()
    memory.set(f"fuselight/tuned/{tmp_path}/1", json.dumps(vars(OTHER)))
    first = tuned_files.agree(JobStore(memory, 0, 2), str(tmp_path), HERE)
    second = tuned_files.agree(JobStore(memory, 1, 2), str(tmp_path), OTHER)
    assert first == second
    assert first.machines == (HERE, OTHER)
    assert [tuned_result.device for tuned_result in first.results] == ["CPU A"]


def test_a_rank_that_never_compiles_is_not_waited_for_without_end(tmp_path: Path) -> None:
    tuned_file.keep(tmp_path / tuned_file.NAME, [result(HERE)])
    first = tuned_files.agree(JobStore(Memory(), 0, 2), str(tmp_path), HERE)
    assert not first.results
    assert "another rank has not compiled anything within 120 s" in first.problem
    second = tuned_files.agree(JobStore(Memory(), 1, 2), str(tmp_path), HERE)
    assert "rank 0 has not compiled anything" in second.problem


def use_of_rank(rank: int, folder: Path, port: int, answers: Queue[tuple[int, str]]) -> None:
    """Be one rank of two: say which results it uses."""
    os.chdir(folder / str(rank))
    store = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", store, rank=rank, world_size=2)
    source = TunedSources().source(None, machine_key(torch.device("cpu")))
    answers.put((rank, f"{source.path} {len(source.results)} {source.problem}"))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no distributed package")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the ranks compute nothing
@pytest.mark.timeout(120)
def test_two_processes_use_the_file_of_rank_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 works in a folder with a file of its own. Where processes are forked, none imports torch again."""
    machine = machine_key(torch.device("cpu"))
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
        tuned_file.keep(tmp_path / str(rank) / tuned_file.NAME, [result(machine), result(HERE)][: rank + 1])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    context: Any = multiprocessing.get_context("fork" if sys.platform.startswith("linux") else "spawn")
    answers: Queue[tuple[int, str]] = context.Queue()
    ranks = [
        context.Process(target=use_of_rank, args=(rank, tmp_path, port, answers), daemon=True)
        for rank in (0, 1)
    ]
    for process in ranks:
        process.start()
    used = dict(answers.get(timeout=100) for _ in ranks)
    for process in ranks:
        process.join(100)
    assert [process.exitcode for process in ranks] == [0, 0], used
    assert used[0] == used[1] == f"{tmp_path / '0' / tuned_file.NAME} 1 "
