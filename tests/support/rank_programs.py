"""Programs of several ranks, which a launcher, two real processes and the world without a network run alike."""

from __future__ import annotations

_HEAD = """\
import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def start():
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    return torch.ones(4, 16, requires_grad=True)


"""
_TAIL = """

if __name__ == "__main__":
    main()
    dist.destroy_process_group()
"""
_MAINS = {
    "tensor_parallel": """\
def main():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    x = start()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("model",))
    block = parallelize_module(Block(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    torch.compile(block)(x).sum().backward()
""",
    "fully_shard": """\
def main():
    from torch.distributed.fsdp import fully_shard

    x = start()
    model = nn.Sequential(Block(), Block())
    for block in model:
        fully_shard(block)
        block.compile()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "data_parallel": """\
def main():
    x = start()
    model = nn.parallel.DistributedDataParallel(nn.Sequential(Block(), nn.Linear(16, 20_000), nn.Linear(20_000, 16)))
    step = torch.compile(model)
    for _ in range(2):
        step(x).sum().backward()
""",
    "functional": """\
import torch.distributed._functional_collectives as funcol


@torch.compile
def gather_and_sum(x):
    parts = funcol.all_gather_tensor(x.sin(), 0, dist.group.WORLD)
    shard = funcol.reduce_scatter_tensor(parts * 2, "sum", 0, dist.group.WORLD)
    return funcol.all_reduce(shard.cos(), "sum", dist.group.WORLD)


def main():
    x = start()
    total = gather_and_sum(x.detach())
    dist.all_reduce(total)
    parts = [torch.empty(4, 16) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, total)
    swapped = torch.empty(4, 16)
    dist.all_to_all_single(swapped, total)
    dist.broadcast(swapped, src=1)
    dist.barrier()
""",
    "two_dimensions": """\
def main():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    x = start()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = nn.Sequential(Block(), Block())
    for block in model:
        parallelize_module(block, mesh["model"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        block.compile()
        fully_shard(block, mesh=mesh["data"])
    model(x).sum().backward()
    dist.all_reduce(x.grad, group=mesh["data"].get_group())
""",
    "branch_on_the_rank": """\
@torch.compile
def step(x):
    if dist.get_rank() == 1:
        x = x.sin()
    return x.cos()


def main():
    x = start()
    loss = step(x).sum()
    loss.backward()
    dist.all_reduce(x.grad)
""",
}
RANKS = dict.fromkeys(_MAINS, 2) | {"two_dimensions": 4}
PROGRAMS = {name: f"{_HEAD}{main}{_TAIL}" for name, main in _MAINS.items()}
