"""What real processes over gloo did in each program of `rank_programs`, as a recording and run again.

Invariant: nothing of Fuselight takes part in what is recorded.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fuselight.shared.report import Compile, EqualRanks, Report, World
from fuselight.shared.version import release
from fuselight.shared.world_plan import world_plan
from tests.support.live_worker import LiveWorker
from tests.support.rank_programs import PROGRAMS, RANKS

RECORDING = Path(__file__).parents[1] / "recordings" / "ranks" / "real_processes.json"
_SCRIPT = Path(__file__).with_name("real_ranks.py")
_DEADLINE = 400
_OPERATORS = {
    "allreduce_": "all_reduce",
    "allgather_": "all_gather",
    "_allgather_base_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "alltoall_base_": "all_to_all",
    "broadcast_": "broadcast",
    "scatter_": "scatter",
    "barrier": "barrier",
}


@dataclass(frozen=True)
class RankRecords:
    """The graphs that Dynamo captured, and the collectives that torch's profiler saw."""

    torch: str
    """Its release, as `2.13`."""
    programs: str
    """Digest of the programs."""
    ranks: dict[str, list[dict[str, Any]]]
    """By program, one for each rank."""

    def write(self) -> None:
        """Be the recording."""
        RECORDING.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def recorded_ranks() -> RankRecords:
    """Read the recording."""
    return RankRecords(**json.loads(RECORDING.read_text(encoding="utf-8")))


def run_real_ranks(folder: Path) -> RankRecords:
    """Run each program as real processes, with an empty folder for their files."""
    for name, source in PROGRAMS.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    command = [sys.executable, str(_SCRIPT), str(folder), *PROGRAMS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    ranks = {
        name: [
            json.loads((folder / f"{name}-{rank}.json").read_text(encoding="utf-8")) for rank in range(count)
        ]
        for name, count in RANKS.items()
    }
    return RankRecords(torch_release(), digest_of_programs(), ranks)


def torch_release() -> str:
    """The release of the installed torch, as `2.13`."""
    return ".".join(map(str, release(torch.__version__)[:2]))


def digest_of_programs() -> str:
    """Changes with the text and the number of ranks of any program."""
    return hashlib.sha256(json.dumps([PROGRAMS, RANKS]).encode()).hexdigest()


def run_program(live: LiveWorker, source: str, ranks: int, mesh: str | None = None, **options: Any) -> Report:
    """Run a program as each rank of a world without a network."""
    request = live.request(source, "", **options)
    return live.report(replace(request, world=world_plan(ranks, mesh)))


def world_of(report: Report) -> World:
    """The ranks of a report, which has some."""
    assert report.world is not None, report.failures
    return report.world


def group_of(report: Report, rank: int) -> EqualRanks:
    """The ranks that did what this one did."""
    return next(group for group in world_of(report).groups if rank in group.ranks)


def compare_with_real(report: Report, real: list[dict[str, Any]]) -> None:
    """Assert that each rank of a report has the graphs and the collectives of the real process."""
    assert report.failures == ()
    for rank, truth in enumerate(real):
        group = group_of(report, rank)
        graphs = [_graph_of(compiled) for compiled in group.compiles if compiled.graph is not None]
        assert graphs == [list(map(_operation, graph)) for graph in truth["graphs"]]
        assert len(group.collectives) == group.collective_count
        assert [call.kind for call in group.collectives] == [
            _OPERATORS[kind] for kind, _ in truth["collectives"]
        ]
        assert all(call.group_name for call in group.collectives)
        assert {call.kind for call in group.collectives if call.reduction} == {
            call.kind for call in group.collectives if "reduce" in call.kind
        }
        for call, (_, shapes) in zip(group.collectives, truth["collectives"], strict=True):
            if (
                call.kind != "barrier" and len(shapes) > 1 and shapes[1]
            ):  # the profiler has none of lists of tensors
                assert call.shapes == (tuple(shapes[1]),)


def _graph_of(compiled: Compile) -> list[str]:
    assert compiled.graph is not None
    return [_operation(target.rpartition(".")[2]) for target in compiled.graph.targets]


def _operation(name: str) -> str:
    """Without the mark that releases before 2.13 put before what Dynamo makes of a method of DTensor."""
    return re.sub(r"^prim[ _]", "", name)
