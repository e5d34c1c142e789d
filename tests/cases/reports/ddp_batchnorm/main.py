import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):  # info: [FL201] "recompiled: grad mode was on, now off"
        return self.head(self.bn(self.conv(x)).relu().mean((2, 3)))


def train(model, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 3, 8, 8)), torch.randint(0, 4, (8,)))
        # info: [GB0007] "graph break: code of DistributedDataParallel is not traced"
        # info: [GB0156] "graph break: code of DistributedDataParallel is not traced"
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model):
    return model(torch.randn(8, 3, 8, 8)).argmax(-1).tolist()
    # hint: [GB0007] "same cause as line 24: graph break: code of DistributedDataParallel is not traced"
    # info: [FL201] "recompiled: grad mode was on, now off"
    # warning: [GB0007] "graph break: DistributedDataParallel broadcasts the buffers here, with `_broadcast_coalesced`"


if __name__ == "__main__":
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    store = tempfile.NamedTemporaryFile(delete=False)
    dist.init_process_group("gloo", init_method=f"file://{store.name}", rank=rank, world_size=world)
    model = torch.compile(DDP(Net()))
    print(train(model))
    print(evaluate(model))
    dist.destroy_process_group()
