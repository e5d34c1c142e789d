"""Trains a small decoder on several ranks, which compile different things: the logs of this job show where."""

import os

import torch
import torch.distributed as dist
from torch import nn

LOGS_SHAPES = os.environ.get("LOGS_SHAPES") == "1"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.is_first = dist.get_rank() == 0

    def forward(self, x):
        h = nn.functional.gelu(self.up(self.norm(x)))
        if LOGS_SHAPES and self.is_first:
            print("hidden", tuple(h.shape))
        return x + self.down(h)


class Decoder(nn.Module):
    def __init__(self, width=32, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(128, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 128)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def mean_over_ranks(losses):
    total = dist._functional_collectives.all_reduce(losses.mean(), "sum", dist.group.WORLD)
    return total / dist.get_world_size()


def train():
    model = torch.compile(Decoder())
    mean = torch.compile(mean_over_ranks)
    last = 40 if dist.get_rank() == 3 else 64
    for length in (64, last):
        ids = torch.randint(128, (4, length))
        losses = nn.functional.cross_entropy(model(ids).transpose(1, 2), ids, reduction="none")
        losses.mean().backward()
        mean(losses.detach())
