"""Programs as each rank of a world without a network, in the shared worker.

They do what real processes over gloo did, which is recorded: `test_real_ranks.py` runs these again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

from fuselight.shared.inputs.grammar import world_of_directives
from fuselight.shared.protocol import Answer, Refused
from fuselight.shared.report import Report, innermost_user_frame
from fuselight.shared.world_plan import world_plan
from fuselight_server.explain.findings import findings
from tests.support.case_files import marked
from tests.support.live_worker import LiveWorker
from tests.support.rank_programs import PROGRAMS, RANKS
from tests.support.rank_records import (
    compare_with_real,
    digest_of_programs,
    group_of,
    recorded_ranks,
    run_program,
    world_of,
)

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def report_of(live: LiveWorker) -> Callable[[str], Report]:
    """The report of each program as its ranks, which is run once."""
    return functools.cache(lambda name: run_program(live, PROGRAMS[name], RANKS[name], file=f"{name}.py"))


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def lines(report: Report) -> list[int | None]:
    """The user's line of each collective of the first rank."""
    places = [innermost_user_frame(call.stack, report.roots) for call in group_of(report, 0).collectives]
    return [place.line if place is not None else None for place in places]


def codes(report: Report) -> list[str]:
    """The codes of findings about ranks."""
    return [finding.code for finding in findings(report) if finding.code.startswith("FL9")]


def test_the_recording_is_of_these_programs() -> None:
    """Else `pytest tests/worker/ranks/test_real_ranks.py --update-golden` records them again."""
    assert recorded_ranks().programs == digest_of_programs()


@pytest.mark.parametrize("name", marked(PROGRAMS, {"two_dimensions"}))
def test_as_real_processes(report_of: Callable[[str], Report], name: str) -> None:
    report = report_of(name)
    compare_with_real(report, recorded_ranks().ranks[name])
    assert codes(report) == (["FL911"] if name == "branch_on_the_rank" else [])


def test_tensor_parallel_layers_reduce_on_their_lines(report_of: Callable[[str], Report]) -> None:
    report = report_of("tensor_parallel")
    (group,) = world_of(report).groups
    assert group.ranks == (0, 1)
    # One all-reduce in the forward graph, for the rows, and one in the backward graph, for the columns.
    in_graphs = [call for call in group.collectives if call.in_graph]
    assert [(call.kind, call.bytes, call.group, call.is_backward) for call in in_graphs] == [
        ("all_reduce", 4 * 16 * 4, (0, 1), False),
        ("all_reduce", 4 * 16 * 4, (0, 1), True),
    ]
    assert lines(report)[-2:] == [line_of(PROGRAMS["tensor_parallel"], "self.down(")] * 2
    assert [note.kind for note in report.notes].count("world_values") == 1


def test_hooks_are_named(report_of: Callable[[str], Report]) -> None:
    sharded = group_of(report_of("fully_shard"), 0).collectives
    assert {call.source for call in sharded} == {"fsdp"}
    assert {(call.kind, call.is_backward) for call in sharded} == {
        ("all_gather", False),
        ("all_gather", True),
        ("reduce_scatter", True),
    }
    parallel = [call for call in group_of(report_of("data_parallel"), 0).collectives if call.is_backward]
    assert {(call.kind, call.source, call.is_async) for call in parallel} == {("all_reduce", "ddp", True)}
    # Every parameter is in one bucket: weights and biases of the three layers, twice.
    parameters = (16 * 32 + 32) + (32 * 16 + 16) + (16 * 20_000 + 20_000) + (20_000 * 16 + 16)
    assert sum(call.bytes for call in parallel) == 2 * 4 * parameters


def test_a_target_with_a_directive(live: LiveWorker) -> None:
    """The process group exists before the file is imported; the lines of the backward are those of the forward."""
    source = """\
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "model"))
seen = [None] * dist.get_world_size()
dist.broadcast_object_list(seen if dist.get_rank() else [dist.get_rank()] * 4, src=0)

# fuselight: Net()(f32[4, 8], train=True, ranks=4, mesh="data=2,model=2")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        assert seen == [0, 0, 0, 0] or dist.get_rank() == 0

    def forward(self, x):
        x = self.layer(x)
        if mesh["data"].get_local_rank() == 1:
            print("second row")
        return funcol.all_reduce(x, "sum", mesh["model"]).cos()
"""
    request = live.request(source, "Net")
    request = replace(
        request, world=world_of_directives(directive.text for directive in request.inputs.directives)
    )
    report = live.report(request)
    world = world_of(report)
    assert report.failures == ()
    assert [group.ranks for group in world.groups] == [(0, 1), (2, 3)]
    assert [
        (finding.code, finding.span.line) for finding in findings(report) if finding.code != "GB0007"
    ] == [
        ("FL911", line_of(source, "print(")),
        ("GB0059", line_of(source, "print(")),
    ]
    assert {len(call.group) for call in world.groups[0].collectives if call.in_graph} == {2}
    assert set(lines(report)[1:]) == {line_of(source, "funcol.all_reduce")}


REFUSED = {
    "another size": (
        'torch.distributed.init_process_group("gloo", rank=0, world_size=2)',
        "the program starts a world of `2` ranks, and this run has `3`",
    ),
    "another rank": (
        'torch.distributed.init_process_group("gloo", rank=7, world_size=3)',
        "the program is rank `0` in this run, and starts as rank `7`",
    ),
    "another number of processes": (
        "torch.multiprocessing.spawn(print, nprocs=8)",
        "the program starts a world of `8` ranks, and this run has `3`",
    ),
    "an object of a rank that does not run yet": (
        'torch.distributed.init_process_group("nccl"); torch.distributed.recv_object_list([None], src=2)',
        "rank 0 receives an object here that rank 2 has not sent in this run",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_program_that_does_not_fit(live: LiveWorker, what: str) -> None:
    text, message = REFUSED[what]
    source = f'import torch\nimport torch.multiprocessing\nif __name__ == "__main__":\n    {text}\n'
    report = run_program(live, source, 3)
    (failure,) = report.failures
    assert failure.message == message
    assert failure.next_step
    place = innermost_user_frame(failure.stack, report.roots)
    assert place is not None
    assert place.line == 4


def test_ranks_that_end_in_other_ways_are_named(live: LiveWorker) -> None:
    """One raises, one is killed, one does not end: the report has the others, and each failure."""
    source = """\
import os, signal, time
import torch
import torch.distributed as dist

@torch.compile
def step(x):
    return x.sin()

if __name__ == "__main__":
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    step(torch.ones(4))
    dist.barrier()
    if rank == 1:
        raise ValueError("only here")
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    while rank == 3:
        time.sleep(0.1)
"""
    seconds = 6.0
    while True:
        report = run_program(live, source, 4, seconds=seconds)
        assert report.failures == ()
        kinds = {
            group.ranks: [failure.kind for failure in group.failures] for group in world_of(report).groups
        }
        if sum("timeout" in ended for ended in kinds.values()) == 1 or seconds > 100:
            break
        seconds *= 4  # the machine is too busy: other ranks did not get to their end
    assert kinds == {(0,): [], (1,): ["exception"], (2,): ["signal"], (3,): ["timeout"]}
    named = [(finding.code, finding.message.splitlines()[0]) for finding in findings(report)]
    assert sorted(named) == [
        ("FL401", "Only on rank 1."),
        ("FL405", "Only on rank 3."),
        ("FL407", "Only on rank 2."),
    ]
    assert all(group.collective_count == 1 for group in world_of(report).groups if group.ranks != (2,))


def test_a_canceled_run_leaves_no_process(live: LiveWorker, the_next_run_works: None) -> None:
    del the_next_run_works
    source = 'import torch\nif __name__ == "__main__":\n    while True:\n        pass\n'
    request = replace(live.request(source, ""), world=world_plan(8))

    async def canceled() -> Answer | Refused:
        started: asyncio.Event = asyncio.Event()
        run = asyncio.ensure_future(live.worker.run(request, lambda _: started.set()))
        await started.wait()
        run.cancel()
        return await run

    with pytest.raises(asyncio.CancelledError):
        live.do(canceled())


VALUES = """\
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def summed(x):
    dist.all_reduce(x)
    return x / dist.get_world_size()


def gathered(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    if len(parts) == 2 and parts[0].shape[0] == 3:
        x = x + 1
    return x + 1 if torch.stack(parts).mean() > 5 else x  # on


@torch.compile(backend="eager")
def step(x):
    y = functional.all_reduce(x.sum(), "sum", dist.group.WORLD)
    if y > 3:  # on
        return x + 1
    return x - 1


def main():
    dist.init_process_group("gloo")
    x = torch.ones(3)
    step(gathered(x))
    mean = summed(x.clone()).mean()
    while mean.item() < 0.5:  # on
        mean += 1
    dist.broadcast(x, src=0)
    if bool(x.any()):  # on
        names = [None] * 2
        dist.all_gather_object(names, {"rank": dist.get_rank()})
        if names[0]["rank"] != names[1]["rank"]:  # on
            return
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    total = distribute_tensor(torch.ones(4), mesh, [Shard(0)]).sum().full_tensor()
    assert total.item() > 1  # on
    if dist.get_rank() >= 0 and x.dtype == torch.float32:
        dist.barrier()


if __name__ == "__main__":
    main()
"""


def test_branches_on_values_of_collectives_are_named(live: LiveWorker) -> None:
    report = run_program(live, VALUES, 2)
    assert report.failures == ()
    rows = VALUES.splitlines()
    named = findings(report, read_line=lambda _path, line: rows[line - 1] if line <= len(rows) else None)
    depending = [finding.span.line for finding in named if finding.code == "FL917"]
    assert depending == [number for number, line in enumerate(rows, 1) if "# on" in line]


MODES = """\
import contextlib
import torch
import torch.distributed as dist
import torch._inductor.config

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = torch.nn.Linear(4, 4), torch.nn.Dropout()

    def forward(self, x):
        return self.drop(self.layer(x))

@torch.no_grad()
def decorated(f, x):  #: grad mode off
    return f(x)

def compiled(function, x):
    return torch.compile(function)(x)

def main():
    dist.init_process_group("nccl")
    rank, x = dist.get_rank(), torch.ones(4, 4)
    net = Net()
    if rank == 0:  # what a rank may do alone
        torch._dynamo.config.verbose = True
        torch._inductor.config.trace.graph_diagram = True
        with torch.no_grad(), torch.autocast("cpu"):
            print(net.layer(x).mean().item())
        profile = torch.profiler.profile()
        profile.start()
    if rank == 1:
        net.eval()  #: modules in eval() mode
    compiled(net, x)
    if rank == 0:
        profile.stop()
    torch.manual_seed(rank)
    (decorated if rank == 1 else compiled)(torch.compile(lambda y: y.sin()), x)
    cast = torch.autocast("cuda", dtype=torch.bfloat16) if rank == 1 else contextlib.nullcontext()
    with cast:  #: autocast on (cpu bfloat16)
        compiled(lambda y: y.cos(), x)
    with torch.inference_mode(rank == 1):  #: inference mode on
        compiled(lambda y: y.tan(), x)
    torch.set_float32_matmul_precision("high" if rank == 1 else "highest")  #: float32 matmul precision high
    compiled(lambda y: y.exp(), x)
    torch.set_float32_matmul_precision("highest")
    with torch._inductor.config.patch(max_autotune=rank == 1):  #: `torch._inductor.config.max_autotune = True`
        compiled(lambda y: y.log(), x)
    torch._dynamo.config.capture_scalar_outputs = rank == 1  #: `torch._dynamo.config.capture_scalar_outputs = True`
    compiled(lambda y: y.abs(), x)
    torch._dynamo.config.capture_scalar_outputs = False
    torch.set_default_dtype(torch.float64 if rank == 1 else torch.float32)  #: default dtype float64
    compiled(lambda y: y.neg(), x)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(rank == 1)  #: deterministic algorithms on
    compiled(lambda y: y.sign(), x)
    torch.use_deterministic_algorithms(False)
    torch.set_default_device("meta" if rank == 1 else "cpu")  #: default device meta
    compiled(lambda y: y.relu(), x)
    torch.set_default_device("cpu")
    for work in (dist.isend(x, 1 - rank), dist.irecv(x, 1 - rank)):
        work.wait()
    dist.send(x, 1 - rank)
    dist.recv(x, 1 - rank)
    dist.recv(x, 1 - rank)  # but each rank sends only twice

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def unlike(live: LiveWorker) -> Report:
    """Two ranks that compile in other modes, and then wait for each other."""
    return run_program(live, MODES, 2)


def test_receives_that_cannot_end_are_named(unlike: Report) -> None:
    exchanged = [call for call in group_of(unlike, 0).collectives if call.kind in {"send", "recv"}]
    assert [(call.kind, call.is_async) for call in exchanged] == [
        ("send", True),
        ("recv", True),
        ("send", False),
        *[("recv", False)] * 2,
    ]
    blocked = [(item.span.line, item.title) for item in findings(unlike) if item.code == "FL912"]
    words = "rank 0 would wait here: it receives from rank 1, which would wait in recv from rank 0 itself"
    assert blocked == [(line_of(MODES, "sends only twice"), words)]


def test_modes_that_ranks_do_not_share_are_named_on_the_lines_that_set_them(unlike: Report) -> None:
    report = unlike
    assert report.failures == ()
    assert report.problems == ()
    assert all(group.failures == () for group in world_of(report).groups)
    marked = {
        number: line.partition("  #: ")[2]
        for number, line in enumerate(MODES.splitlines(), 1)
        if "  #: " in line
    }
    assert len(marked) == 10
    named = {
        finding.span.line: finding.title
        for finding in findings(report)
        if finding.code.startswith("FL9") and finding.code != "FL912"
    }
    assert named.keys() == marked.keys()
    for line, words in marked.items():
        assert f" with {words}; rank 0 has " in named[line]
