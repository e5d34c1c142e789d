"""A model copies its config in every call to change it for that call."""
import copy
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Config:
    dim: int = 16
    scale: float = 0.5
    extras: dict = field(default_factory=dict)


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.proj = nn.Linear(config.dim, config.dim)

    def forward(self, x, scale=None):
        config = copy.deepcopy(self.config)
        if scale is not None:  # warning: [FL201] "recompiled: scale was None, now 0.25"
            config.scale = scale
        return self.proj(x) * config.scale


model = torch.compile(Encoder(Config(extras={"name": "a"})))
model(torch.randn(2, 16))
model(torch.randn(2, 16), scale=0.25)
# run by: make corpora
