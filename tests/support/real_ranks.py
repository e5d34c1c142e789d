"""`real_ranks.py FOLDER NAME...`: runs each program of `rank_programs` as real processes over gloo.

Writes `FOLDER/NAME-RANK.json`: the targets of the graphs that Dynamo captured, and the collectives that torch's
profiler saw at the operators of `c10d`. Nothing of Fuselight takes part. Each rank is a fork of this process.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor.parallel
from torch._dynamo.backends.debugging import aot_eager

RANKS: dict[str, int] = importlib.import_module("rank_programs").RANKS
"""How many ranks each program has."""


def run_rank(rank: int, program: Path, rendezvous: Path, answer: Path) -> None:
    """Run the program as a rank, as torchrun does, and write what it did."""
    size = RANKS[program.stem]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="localhost")
    start = dist.init_process_group
    dist.init_process_group = functools.partial(
        start, init_method=f"file://{rendezvous}", rank=rank, world_size=size
    )
    graphs: list[list[str]] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        nodes = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        graphs.append([str(getattr(node.target, "__name__", node.target)) for node in nodes])
        return aot_eager(graph, inputs)

    torch.compile = functools.partial(torch.compile, backend=backend)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        runpy.run_path(str(program), run_name="__main__")
    events = sorted(
        (event for event in profile.events() if event.name.startswith("c10d::")),
        key=lambda event: event.time_range.start,
    )
    collectives = [(event.name.removeprefix("c10d::"), event.input_shapes) for event in events]
    answer.write_text(json.dumps({"graphs": graphs, "collectives": collectives}), encoding="utf-8")


def main(folder: Path, names: list[str]) -> None:
    """Run each program, one after the other."""
    for name in names:
        started = time.perf_counter()
        children = []
        for rank in range(RANKS[name]):
            child = os.fork()
            if child == 0:
                try:
                    run_rank(
                        rank, folder / f"{name}.py", folder / f"{name}.store", folder / f"{name}-{rank}.json"
                    )
                except BaseException:  # noqa: BLE001 - a missing answer fails the test
                    traceback.print_exc()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)  # noqa: T201 - shown when a test fails


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
