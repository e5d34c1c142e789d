from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    width: int = 16
    gated: bool = False
    skip: float = 0.0
    order: str = "last"
    groups: int = 1


class Mixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.up = nn.Linear(config.width, config.width)
        self.gate = nn.Linear(config.width, config.width)

    def forward(self, x):
        y = self.up(x)
        if self.config.gated:
            y = y * self.gate(x).sigmoid()
        parts = y.chunk(self.config.groups, -1)
        y = torch.cat([part - part.mean(-1, keepdim=True) for part in parts], -1)
        if self.config.order == "first":
            y = y.flip(0)
        return y + self.config.skip * x


# fuselight: Mixer(Config())(f32[3, 16])
