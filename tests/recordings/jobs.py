# ruff: noqa: ANN001, ANN201, ANN202, ANN204, ANN205, BLE001, T201 - programs as users write them
"""Small jobs, each of which leaves one kind of record in torch's structured log. `record_jobs.py` runs them."""

import os
import signal

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.scale = 1.0

    def forward(self, x):
        return self.down(torch.relu(self.up(x))) * self.scale


class Talking(Net):
    def forward(self, x):
        x = self.up(x)
        print("hidden", tuple(x.shape))
        return self.down(x).sum()


@torch.library.custom_op("recorded::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def graph_break():
    with torch.no_grad():
        torch.compile(Talking())(torch.ones(3, 8))


def recompile():
    net = Net()
    compiled = torch.compile(net)
    with torch.no_grad():
        for scale in (1.0, 2.0, 3.0):
            net.scale = scale
            compiled(torch.ones(3, 8))
        compiled(torch.ones(3, 8, dtype=torch.float64).float().t().contiguous().t())


def dynamic_shapes():
    def clipped(x):
        if x.size(1) == 8:
            return x.cumsum(0)
        return x + x.size(0)

    compiled = torch.compile(clipped, dynamic=True)
    for rows in (3, 5, 7):
        compiled(torch.ones(rows, 8))


def training():
    net = Net()
    compiled = torch.compile(net)
    for _ in range(2):
        compiled(torch.ones(3, 8)).sum().backward()


def two_graphs():
    with torch.no_grad():
        torch.compile(Net())(torch.ones(3, 8))
        torch.compile(lambda x: x.sin().cos().sum(0))(torch.ones(4, 4))


def compile_crash():
    def failing(_graph, _inputs):
        raise KeyError("a backend that fails")

    try:
        torch.compile(Net(), backend=failing)(torch.ones(3, 8))
    except Exception as error:
        print(type(error).__name__)


def unfinished():
    def ending(_graph, _inputs):
        os.kill(os.getpid(), signal.SIGKILL)

    torch.compile(Net(), backend=ending)(torch.ones(3, 8))


def cache_miss():
    training()


def cache_hit():
    training()


def autocast():
    def mixed(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ y

    with torch.no_grad():
        torch.compile(mixed)(torch.ones(4, 4), torch.ones(4, 4))


def custom_operator():
    with torch.no_grad():
        torch.compile(lambda x: doubled(x).sum())(torch.ones(4))


def autograd_function():
    torch.compile(lambda x: Cubed.apply(x).sum())(torch.ones(4, requires_grad=True)).backward()


def compiled_autograd():
    net = Net()
    compiled = torch.compile(net)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        for _ in range(2):
            compiled(torch.ones(3, 8)).sum().backward()


def _step(change, rows=4):
    net = Net()

    def step(x):
        x = net(x)
        x = change(x)
        return dist._functional_collectives.all_reduce(x.sum(0), "sum", dist.group.WORLD)

    compiled = torch.compile(step, backend="aot_eager")
    with torch.no_grad():
        for size in (4, rows):
            compiled(torch.ones(size, 8))


def ranks_same():
    _step(torch.relu)


def ranks_shape():
    _step(torch.relu, rows=4 + 2 * dist.get_rank())


def ranks_branch():
    _step(torch.sin if dist.get_rank() == 1 else torch.relu)


ALONE = (
    graph_break,
    recompile,
    dynamic_shapes,
    training,
    two_graphs,
    compile_crash,
    unfinished,
    cache_miss,
    cache_hit,
    autocast,
    custom_operator,
    autograd_function,
    compiled_autograd,
)
RANKS = (ranks_same, ranks_shape, ranks_branch)
"""Jobs of two processes."""
