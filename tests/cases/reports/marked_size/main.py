"""The batch is marked dynamic, but the model compares it with a number."""
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, dim=8, tile=5):
        super().__init__()
        self.tile = tile
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
        x = self.linear(x)
        if x.size(0) == self.tile:  # error: [FL301] "`x.size(0)` is fixed to 5 although it was marked dynamic"
            return x.mean(dim=0)
        return x.sum(dim=0) / x.size(0)


if __name__ == "__main__":
    pool = torch.compile(Pool().eval(), backend="eager")
    with torch.no_grad():
        for batch in (5, 6, 9):
            x = torch.randn(batch, 8)
            torch._dynamo.mark_dynamic(x, 0)
            print(pool(x).shape)
# run by: make corpora
