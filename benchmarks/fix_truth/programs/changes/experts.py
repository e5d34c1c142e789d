import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, dim=8, count=2, top=1, noise=0.0, shared=False, jitter=None):
        super().__init__()
        self.top, self.noise, self.shared, self.jitter = top, noise, shared, jitter
        self.router = nn.Linear(dim, count)
        self.weight = nn.Parameter(torch.randn(count, dim, dim) * 0.1)

    def forward(self, x, temperature=1.0):
        logits = self.router(x) / temperature
        if self.training and self.noise > 0:
            logits = logits + self.noise * torch.randn_like(logits)
        chosen = logits.topk(self.top, -1)
        mixed = torch.zeros_like(x)
        for place in range(self.top):
            weights = self.weight[chosen.indices[:, place]]
            mixed = mixed + chosen.values[:, place, None] * torch.bmm(weights, x[:, :, None]).squeeze(-1)
        if self.shared:
            mixed = mixed + x @ self.weight.mean(0)
        if self.jitter is not None:
            mixed = mixed * self.jitter
        return mixed


# fuselight: Experts()(f32[5, 8])
