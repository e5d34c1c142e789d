# AMD-AGI/Primus#1169, pytorch/pytorch#135688: a deprecation warning in each linear layer
import warnings

import torch
from torch import nn


def group_or_default(group, is_expert=False):
    if group is None:
        warnings.warn("Warning: tp_group is None, using default tp group", DeprecationWarning)
        # warning: [GB0007] "graph break: `warnings.warn` is not traced by torch.compile"
        group = "tp-expert" if is_expert else "tp"
    return group


class RowParallelLinear(nn.Linear):
    def __init__(self, features, tp_group=None):
        super().__init__(features, features, bias=False)
        self.tp_group = tp_group

    def forward(self, x):
        group_or_default(self.tp_group)
        return super().forward(x)


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = RowParallelLinear(dim)
        self.down = RowParallelLinear(dim)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


if __name__ == "__main__":
    torch.manual_seed(0)
    block = torch.compile(Block())
    for _ in range(2):
        out = block(torch.randn(4, 16))
    print(out.sum().item())
# run by: make corpora
