"""Programs of two to four ranks, each of which becomes one recorded job; `record_rank_jobs.py` runs them.

`DIFFERENT` have one planted difference: its line ends with `# HERE`, and with the program's name if it is in shared code.
Ranks of `EQUAL` compile alike, although they differ in what does not matter. Both say how many ranks they have.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn

def compiled(function, **options):
    return torch.compile(function, backend="aot_eager", **options)


def graph_only(function):
    """Compile, and compute nothing: collectives that differ between ranks would wait for ever."""
    return torch.compile(function, backend=_ones)


def _ones(graph, _inputs):
    values = [node.meta["example_value"] for node in graph.graph.find_nodes(op="output")[0].args[0]]
    shapes = [[size if isinstance(size, int) else size.node.hint for size in value.shape] for value in values]
    return lambda *_: tuple(
        torch.ones(shape, dtype=value.dtype) for shape, value in zip(shapes, values, strict=True)
    )


def reduced(x):
    return collectives.all_reduce(x, "sum", dist.group.WORLD)


class Mlp(nn.Module):
    def __init__(self, layers=2, dropout=0.0):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        self.scale = 2

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))  # HERE: deeper_on_last_rank
        x = self.dropout(x)  # HERE: training_on_one_rank
        return x * self.scale  # HERE: changed_number


# --- one planted difference ---


def branch_on_rank():
    def step(x):
        x = torch.relu(x)
        if dist.get_rank() == 1:
            x = x.sin()  # HERE
        return reduced(x)

    compiled(step)(torch.ones(4, 8))


def other_operator():
    activation = torch.tanh if dist.get_rank() == 2 else torch.relu

    def step(x):
        x = x + 1
        x = activation(x)  # HERE
        return reduced(x)

    compiled(step)(torch.ones(4, 8))


def operator_left_out():
    def step(x, normalize):
        x = x * 2
        if normalize:
            x = x / x.sum()  # HERE
        return reduced(x.cos())

    compiled(step)(torch.ones(4, 8), dist.get_rank() != 0)


def last_batch():
    def step(x):
        return reduced(torch.relu(x) * 2)  # HERE

    run = graph_only(step)
    for rows in (4, 6 if dist.get_rank() in {1, 3} else 4):
        run(torch.ones(rows, 8))


def other_width():
    def step(x):
        y = x.exp()  # HERE
        z = y.view(-1, x.size(1))
        return reduced(z.sum(0).sum())

    run = compiled(step)
    for columns in (640, 8 if dist.get_rank() in {2, 3} else 640):
        run(torch.ones(4, columns))


def changed_number():
    net = Mlp()

    def step(x):
        return reduced(net(x))

    run = compiled(step)
    with torch.no_grad():
        run(torch.ones(4, 8))
        if dist.get_rank() == 0:
            net.scale = 5
        run(torch.ones(4, 8))


def other_reasons():
    def step(x):
        return reduced(x.abs() + 1)  # HERE

    run = graph_only(step)
    run(torch.ones(4, 8))
    run(torch.ones(4, 8, dtype=torch.float64) if dist.get_rank() == 1 else torch.ones(6, 8))


def printed_on_rank_0():
    def step(x):
        x = x * 2
        if dist.get_rank() == 0:
            print(x.shape, file=log)  # HERE
        return reduced(x.sin())

    with open(os.devnull, "w") as log:
        compiled(step)(torch.ones(4, 8))


def broken_in_helper():
    def note(x, rank):
        y = x + 1
        if rank == 1:
            torch._dynamo.graph_break()  # HERE
        return y * 2

    def step(x, rank):
        return reduced(note(x.sin(), rank))

    compiled(step)(torch.ones(4, 8), dist.get_rank())


def branch_on_data():
    def step(x):
        x = x * 2
        if x.sum() > 0:
            x = x.sin()
        else:
            x = x.cos()  # HERE
        return reduced(x)

    compiled(step)(torch.ones(4, 8) * (1 if dist.get_rank() == 0 else -1))


def order_of_collectives():
    def step(x, first):
        if first:
            a = dist._functional_collectives.all_reduce(x, "sum", dist.group.WORLD)
            b = dist._functional_collectives.all_gather_tensor(x, 0, dist.group.WORLD)
        else:
            b = dist._functional_collectives.all_gather_tensor(x, 0, dist.group.WORLD)  # HERE
            a = dist._functional_collectives.all_reduce(x, "sum", dist.group.WORLD)
        return a.sum() + b.sum()

    graph_only(step)(torch.ones(4, 8), dist.get_rank() != 1)


def extra_collective():
    def step(x):
        x = torch.relu(x)
        if dist.get_rank() == 0:
            x = reduced(x)  # HERE
        return x.sum()

    graph_only(step)(torch.ones(4, 8))


def other_reduction():
    kind = "max" if dist.get_rank() == 1 else "sum"

    def step(x):
        x = x.sin()
        x = collectives.all_reduce(x, kind, dist.group.WORLD)  # HERE
        return x.cos()

    graph_only(step)(torch.ones(4, 8))


def rank_in_graph():
    def step(x):
        x = x.sin()
        x = x * (dist.get_rank() + 1)  # HERE
        return reduced(x)

    compiled(step)(torch.ones(4, 8))


def uneven_shards():
    rows = 5 if dist.get_rank() == 2 else 4

    def step(x):
        return reduced((x @ x.T).sum())  # HERE

    compiled(step)(torch.ones(rows, 8))


def other_dtype():
    dtype = torch.bfloat16 if dist.get_rank() == 1 else torch.float32

    def step(x):
        return reduced(x.sum().float())  # HERE

    compiled(step)(torch.ones(4, 8, dtype=dtype))


def training_on_one_rank():
    net = Mlp(dropout=0.5)
    net.train(dist.get_rank() == 1)

    def step(x):
        return net(x).sum()

    with torch.no_grad():
        compiled(step)(torch.ones(4, 8))


def grad_mode():
    weight = torch.ones(8, 8)

    def step(x):  # HERE
        return reduced(x @ weight)

    with torch.set_grad_enabled(dist.get_rank() != 1):
        compiled(step)(torch.ones(4, 8))


def evaluated_on_rank_0():
    def step(x):
        return reduced(x * 2)

    def evaluate(x):  # HERE
        return x.mean() + x.std()

    compiled(step)(torch.ones(4, 8))
    if dist.get_rank() == 0:
        compiled(evaluate)(torch.ones(4, 8))


def failed_on_rank_1():
    def backend(graph, inputs):
        if dist.get_rank() == 1:
            raise RuntimeError("no kernel for this device")
        return _ones(graph, inputs)

    def step(x):  # HERE
        return reduced(x + 1)

    run = torch.compile(step, backend=backend)
    try:
        run(torch.ones(4, 8))
    except Exception:
        time.sleep(0.1)


def killed_while_compiling():
    def backend(graph, inputs):
        if dist.get_rank() == 1:
            os._exit(3)
        return _ones(graph, inputs)

    def step(x):  # HERE
        return reduced(x + 1)

    torch.compile(step, backend=backend)(torch.ones(4, 8))


def past_the_limit():
    torch._dynamo.config.recompile_limit = 2
    torch._dynamo.config.automatic_dynamic_shapes = False

    def step(x):
        return x.sin() + 1  # HERE

    run = compiled(step)
    for rows in (4, 5, 6 if dist.get_rank() == 1 else 5):
        run(torch.ones(rows, 8))


def marked_on_one_rank():
    x = torch.ones(4, 8)
    if dist.get_rank() == 1:
        torch._dynamo.mark_dynamic(x, 0)

    def step(x):
        return reduced(x.sin().sum(0))  # HERE

    compiled(step)(x)


def deeper_on_last_rank():
    net = Mlp(layers=3 if dist.get_rank() == 2 else 2)

    def step(x):
        return net(x).sum()

    with torch.no_grad():
        compiled(step)(torch.ones(4, 8))


def compiled_in_other_order():
    def first(x):
        return collectives.all_reduce(x.sin(), "sum", dist.group.WORLD)

    def second(x):
        return collectives.all_reduce(x.cos(), "sum", dist.group.WORLD)  # HERE

    a, b = compiled(first), compiled(second)
    for run in (b, a) if dist.get_rank() == 1 else (a, b):
        run(torch.ones(4, 8))


# --- a collective that not all ranks start ---


def unanswered_collective():
    """Leaves a dump of torch's flight recorder in the folder of the logs."""
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() != 1:
        dist.all_reduce(torch.ones(8), async_op=True)  # HERE
    compiled(torch.sin)(torch.ones(4))
    dump = torch._C._distributed_c10d._dump_fr_trace()
    Path(os.environ["RECORDED_FOLDER"], f"nccl_trace_rank_{dist.get_rank()}").write_bytes(dump)


# --- no difference ---


def simple():
    compiled(lambda x: reduced(x.sin()))(torch.ones(4, 8))


def other_values():
    torch.manual_seed(dist.get_rank())
    net = Mlp()
    with torch.no_grad():
        compiled(lambda x: reduced(net(x)))(torch.randn(4, 8))


def trained():
    net = Mlp()
    run = compiled(net)
    for _ in range(2):
        loss = run(torch.ones(4, 8)).sum()
        loss.backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)


def replicated():
    net = nn.parallel.DistributedDataParallel(Mlp())
    run = compiled(net)
    for _ in range(2):
        run(torch.ones(4, 8)).sum().backward()


def recompiled_by_all():
    run = compiled(lambda x: reduced(x.sin()))
    for rows in (4, 6, 9):
        run(torch.ones(rows, 8))


def broken_by_all():
    def step(x):
        x = x + 1
        torch._dynamo.graph_break()
        return reduced(x.sin())

    compiled(step)(torch.ones(4, 8))


def printed_outside():
    run = compiled(lambda x: reduced(x.sin()))
    for _ in range(2):
        y = run(torch.ones(4, 8))
        if dist.get_rank() == 0:
            Path(os.devnull).write_text(str(y))


def started_late():
    time.sleep(0.4 * dist.get_rank())
    compiled(lambda x: x.sin() + 1)(torch.ones(4, 8))


def pairs():
    """Each rank reduces in a group of another name."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    group = groups[dist.get_rank() // 2]

    def step(x):
        return collectives.all_reduce(x.sin(), "sum", group)

    compiled(step)(torch.ones(4, 8))


def own_folders():
    with tempfile.TemporaryDirectory(prefix=f"rank{dist.get_rank()}-") as folder:
        options = {"folder": folder, "width": 8}

        def step(x):
            return reduced(x.view(-1, options["width"]).sin())

        compiled(step)(torch.ones(4, 8))


def unused_objects():
    keep = [object() for _ in range(dist.get_rank() * 1000)]

    class Config:
        width = 8

    config = Config()

    def step(x):
        return reduced(x.view(-1, config.width)) + len(Mlp.__name__)

    compiled(step)(torch.ones(4, 8))
    assert keep is not None


def failed_on_all():
    def backend(_graph, _inputs):
        raise RuntimeError("no kernel for this device")

    try:
        torch.compile(lambda x: x.sin(), backend=backend)(torch.ones(4, 8))
    except Exception:
        time.sleep(0.1)


def past_the_limit_on_all():
    torch._dynamo.config.recompile_limit = 2
    torch._dynamo.config.automatic_dynamic_shapes = False
    run = compiled(lambda x: x.sin())
    for rows in (4, 5, 6):
        run(torch.ones(rows, 8))


def dynamic():
    run = compiled(lambda x: reduced(x.sin() * x.size(0)), dynamic=True)
    run(torch.ones(4 + dist.get_rank(), 8).sum(1, keepdim=True).expand(-1, 8)[:4])


def several_functions():
    def first(x):
        return reduced(x.sin())

    def second(x):
        return reduced(x.cos())

    for function in (first, second, first):
        compiled(function)(torch.ones(4, 8))


def gathered_and_scattered():
    world = dist.get_world_size()

    def step(x):
        x = collectives.all_gather_tensor(x, 0, dist.group.WORLD)
        x = x.sin()
        return collectives.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD) + world

    compiled(step)(torch.ones(4, 8))


def read_value_on_all():
    def step(x):
        return reduced(x * x.sum().item())

    compiled(step)(torch.ones(4, 8))


def autocast_on_all():
    net = Mlp()

    def step(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(x).float()

    with torch.no_grad():
        compiled(step)(torch.ones(4, 8))


def equal_branch_on_data():
    def step(x):
        x = x * 2
        if x.sum() > 0:
            return reduced(x.sin())
        return reduced(x.cos())

    compiled(step)(torch.ones(4, 8) * (dist.get_rank() + 1))


def checkpointed_by_rank_0():
    net = Mlp()
    run = compiled(net)
    with torch.no_grad():
        run(torch.ones(4, 8))
        if dist.get_rank() == 0:
            with tempfile.TemporaryFile() as file:
                torch.save(net.state_dict(), file)
        run(torch.ones(4, 8))


DIFFERENT = {
    branch_on_rank: 2,
    other_operator: 4,
    operator_left_out: 3,
    last_batch: 4,
    other_width: 4,
    changed_number: 2,
    other_reasons: 2,
    printed_on_rank_0: 3,
    broken_in_helper: 2,
    branch_on_data: 2,
    order_of_collectives: 2,
    extra_collective: 3,
    other_reduction: 3,
    rank_in_graph: 4,
    uneven_shards: 4,
    other_dtype: 2,
    training_on_one_rank: 3,
    grad_mode: 2,
    evaluated_on_rank_0: 3,
    failed_on_rank_1: 2,
    killed_while_compiling: 2,
    past_the_limit: 2,
    marked_on_one_rank: 3,
    deeper_on_last_rank: 3,
    compiled_in_other_order: 2,
}
DUMPED = {unanswered_collective: 3}
EQUAL = {
    simple: 4,
    other_values: 3,
    trained: 2,
    replicated: 2,
    recompiled_by_all: 3,
    broken_by_all: 2,
    printed_outside: 2,
    started_late: 3,
    pairs: 4,
    own_folders: 2,
    unused_objects: 2,
    failed_on_all: 2,
    past_the_limit_on_all: 2,
    dynamic: 2,
    several_functions: 3,
    gathered_and_scattered: 2,
    read_value_on_all: 2,
    autocast_on_all: 2,
    equal_branch_on_data: 3,
    checkpointed_by_rank_0: 2,
}
