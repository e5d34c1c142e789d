"""A custom autograd.Function with setup_context, in the decoder that is compiled as an attribute."""
import torch
from torch import nn


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(x, levels):
        return torch.round(x * levels) / levels  # warning: [FL201] "recompiled: self.levels was 4, now 8"

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.levels = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.decoder = torch.compile(self.decoder)
        self.quantize = torch.compile(self._quantize)
        self.levels = 4

    def _quantize(self, x):
        return Quantize.apply(x, self.levels)

    def forward(self, x):
        return self.decoder(self.quantize(self.encoder(x)))


if __name__ == "__main__":
    codec = Codec()
    for levels in (4, 8, 16):
        codec.levels = levels
        codec(torch.randn(2, 8)).sum().backward()
# run by: make corpora
