import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, dim=8, window=0, bias=False, kind="add"):
        super().__init__()
        self.window, self.kind = window, kind
        self.bias = nn.Parameter(torch.ones(dim)) if bias else None
        self.proj = nn.Linear(dim, dim, bias=False)

    def combine(self, x, past):
        if self.kind == "cat":
            return torch.cat([past, x], 1)
        return x + past.mean(1, keepdim=True)

    def forward(self, x, past=None, start=0, return_last=False):
        y = self.proj(x[:, start:])
        if past is not None:
            y = self.combine(y, past)
        if self.window:
            y = y[:, -self.window :]
        if self.bias is not None:
            y = y + self.bias
        return y[:, -1] if return_last else y


# fuselight: Decoder()(f32[2, 6, 8])
