# pytorch/pytorch#139989: a graph break inside a checkpointed function
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.longest = 0.0

    def attend(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-1, -2)
        peak = scores.abs().max().item()
        # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"
        if peak > 30.0:
            scores = scores * (30.0 / peak)
        return scores.softmax(-1) @ v

    def forward(self, x):
        x = x * 2
        return self.out(checkpoint(self.attend, x, use_reentrant=False))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Attention())
    for _ in range(2):
        loss = model(torch.randn(2, 6, 16)).pow(2).mean()
        loss.backward()
    print(loss.item())
# run by: make corpora
