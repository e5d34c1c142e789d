"""`fuselight check --ranks` without a worker: what it asks for, what it refuses, and its formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import (
    Collective,
    CollectiveMismatch,
    Compile,
    EqualRanks,
    Frame,
    Graph,
    Location,
    MeshDimension,
    Outcome,
    World,
    WorldPlan,
)
from tests.support.command import AnsweringWorker, Result, run_cli
from tests.support.reports import report

PROGRAM = """\
import torch
import torch.distributed as dist

@torch.compile
def step(x):
    dist.all_reduce(x)
    return x

if __name__ == "__main__":
    step(torch.ones(4))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def check(program: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Result, WorldPlan | None]:
    """The result of a check in which two ranks differ, and the world that it asked for."""
    place = Location(str(program), 6, function="step")
    call = Collective("all_reduce", (0, 2), "float32", ((250_000,),), 1_000_000, (place,), in_graph=True)
    frames = (Frame("step", Location(str(program), 5)),)
    compiles = (
        Compile("0/0", 0, Outcome.COMPILED, graph=Graph(1, targets=("all_reduce",), lines=((place,),))),
    )
    world = World(
        4,
        (MeshDimension("data", 2), MeshDimension("model", 2)),
        (
            EqualRanks((0, 1, 3), frames, compiles, collectives=(call, call), collective_count=2),
            EqualRanks((2,), frames, compiles, collectives=(call,), collective_count=1),
        ),
        {"0": 1.25, "1": 2.0, "2": 1.5, "3": 1.5},
        (CollectiveMismatch((0, 2), 1, (0, 2), (call, None)),),
    )

    def answer(request: Any) -> Any:
        return report(
            roots=(str(program.parent),), frames=frames, compiles=compiles, world=request.world and world
        )

    worker = AnsweringWorker(answer)
    worker.hello = worker.hello_of(report())
    worker.put_in_place(monkeypatch)
    result = run_cli("check", str(program), "--no-cache", *arguments)
    return result, worker.requests[0].world if worker.requests else None


def test_ranks_and_their_collectives_as_text(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, plan = check(
        program, monkeypatch, "--ranks", "4", "--mesh", "data=2,model=2", "--link", "1GB/s,5us"
    )
    assert plan == WorldPlan(4, (MeshDimension("data", 2), MeshDimension("model", 2)))
    assert result.exit_code == 1
    assert "error[FL912]: rank 0 would wait here: rank 2 calls no further collective" in result.stdout
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(
        line.endswith("as 4 of 4 ranks: 1.2 to 2.0 s each, on the CPU, without a network.") for line in lines
    )
    assert "ranks 0-1, 3: 1 graph, 0 breaks, 0 recompilations, 2 collectives" in lines
    assert "rank 2: 1 graph, 0 breaks, 0 recompilations, 1 collective" in lines
    row = next(line for line in lines if "all_reduce 2 ranks (data) float32" in line)
    assert row.endswith("train.py:6 graph 2 × all_reduce 2 ranks (data) float32 2 MB ~2 ms")
    assert any("estimates for 1GB/s between two ranks, 5 µs latency" in line for line in lines)


def test_ranks_as_json(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = check(program, monkeypatch, "--ranks", "4", "--format", "json")
    world = json.loads(result.stdout)["targets"][0]["world"]
    assert (world["size"], world["mesh"], world["ran"]) == (4, {"data": 2, "model": 2}, [0, 1, 2, 3])
    assert [group["ranks"] for group in world["groups"]] == [[0, 1, 3], [2]]
    call = world["groups"][1]["collectives"][0]
    assert (call["kind"], call["bytes"], call["estimate_us"]) == ("all_reduce", 1_000_000, 12.5)


def test_a_check_without_ranks_has_no_world(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, plan = check(program, monkeypatch, "--format", "json")
    assert plan is None
    assert "world" not in json.loads(result.stdout)["targets"][0]


def test_words_after_two_dashes_are_the_arguments_of_the_program(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = AnsweringWorker(lambda _: report(roots=(str(program.parent),)))
    worker.hello = worker.hello_of(report())
    worker.put_in_place(monkeypatch)
    run_cli("check", str(program), "--no-cache", "--", "--config", "small.json", "--", "--format")
    run_cli("check", "--no-cache", "--", str(program))
    run_cli("check", "--no-cache", "--", str(program), "--", "--config")
    texts = [request.argv for request in worker.requests]
    assert texts == [("--config", "small.json", "--", "--format"), (), ("--config",)]


def test_a_directive_asks_for_its_ranks(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text(PROGRAM.replace("@torch", "# fuselight: step(f32[4], ranks=2)\n@torch"))
    assert check(program, monkeypatch)[1] == WorldPlan(2)
    assert check(program, monkeypatch, "--ranks", "3", "--most-ranks", "2")[1] == WorldPlan(3, most=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ranks", "0"), "`0` ranks: a world has from 1 to 16,384 ranks"),
        (("--ranks", "6", "--mesh", "data=4,model=2"), "has 4 * 2 = 8 ranks, not `6`"),
        (("--mesh", "data:4"), "`data:4` is not NAME=N, such as data=4"),
        (("--ranks", "2", "--link", "quick"), "`quick` is not a link: write 400GB/s"),
        (("--ranks", "two"), "argument --ranks"),
        (("--ranks", "2", "--most-ranks", "0"), "`0` is not a whole number of at least 1"),
    ],
)
def test_what_cannot_be_a_world(
    program: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    result, plan = check(program, monkeypatch, *arguments)
    assert (result.exit_code, plan) == (2, None)
    assert words in result.stderr
