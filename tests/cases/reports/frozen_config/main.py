"""Each request brings a frozen configuration of its own."""
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Options:
    scale: float = 1.0
    clip: float = 4.0
    causal: bool = True


class Layer(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x, options):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.transpose(-2, -1) * options.scale).clamp(max=options.clip)
        # warning: [FL201] "recompiled: options.scale was 1.0, now 0.5"
        if options.causal:
            scores = scores + torch.full(scores.shape[-2:], -1e9).triu(1)
        return scores.softmax(dim=-1) @ v


if __name__ == "__main__":
    layer = torch.compile(Layer().eval(), backend="eager", fullgraph=True)
    x = torch.randn(2, 5, 12)
    with torch.no_grad():
        for options in (Options(), Options(0.5), Options(0.25, 2.0), Options(0.25, 2.0, False)):
            layer(x, options)
# run by: make corpora
