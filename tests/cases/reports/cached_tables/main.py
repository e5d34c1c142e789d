# pytorch/pytorch#146598: functools.cache around a function that changes a global
from functools import cache

import torch
from torch import nn

tables_built = 0


@cache
def frequencies(dim):
    global tables_built
    tables_built += 1  # warning: [FL201] "recompiled: tables_built was 0, now 1"
    return torch.arange(0, dim, 2).float().div(dim).mul(-9.2).exp()


class TimeEmbedding(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.dim = dim
        self.linear = nn.Linear(dim, dim)

    def forward(self, t):
        angles = t[:, None] * frequencies(self.dim)
        return self.linear(torch.cat([angles.sin(), angles.cos()], dim=-1))


if __name__ == "__main__":
    torch.manual_seed(0)
    embedding = torch.compile(TimeEmbedding())
    with torch.no_grad():
        for _ in range(4):
            out = embedding(torch.rand(4))
    print(out.shape, tables_built)
# run by: make corpora
