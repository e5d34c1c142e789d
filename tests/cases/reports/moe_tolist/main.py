"""A mixture of experts that splits its tokens by counts that come from the router."""
import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, dim=16, experts=4):
        super().__init__()
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        choice = self.router(x).argmax(dim=-1)
        order = choice.argsort()
        counts = torch.bincount(choice, minlength=len(self.experts)).tolist()
        # warning: [GB0033] "graph break: a tensor is converted to Python numbers"
        # warning: [FL201] "recompiled: counts[0] was 8, now 4"
        # warning: [GB0036] "graph break: the shape of the result of `bincount` depends on the tensor's data"
        parts = x[order].split(counts)
        out = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        return torch.empty_like(out).index_copy(0, order, out)


def train():
    torch.manual_seed(0)
    model = torch.compile(MoE())
    for _ in range(3):
        model(torch.randn(32, 16)).sum().backward()


if __name__ == "__main__":
    train()
# run by: make corpora
