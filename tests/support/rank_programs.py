"""Programs of several ranks, which a launcher, two real processes and the world without a network run alike."""

from __future__ import annotations

_TENSOR_PARALLEL = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("model",))
    block = parallelize_module(Block(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    x = torch.ones(4, 16, requires_grad=True)
    torch.compile(block)(x).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""

PROGRAMS = {"tensor_parallel": _TENSOR_PARALLEL}
