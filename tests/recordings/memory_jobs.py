"""Small programs for a GPU whose memory `record_memory.py` records: the tests name their lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

MIB = 1 << 20


class Net(nn.Module):
    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor, *, keeps: bool = False) -> torch.Tensor:
        hidden = functional.gelu(self.up(x))
        if keeps:
            self.seen.append(hidden.mean(0, keepdim=True).repeat(128, 1))
        result: torch.Tensor = x + self.down(hidden)
        return result


def train(net: Any, rows: int, steps: int, *, keeps: bool = False) -> list[torch.Tensor]:
    optimizer = torch.optim.AdamW(net.parameters())
    losses = []
    for _ in range(steps):
        x = torch.randn(rows, 512, device="cuda")
        loss = net(x, keeps=keeps).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    return losses


def clean() -> Any:
    net = Net().cuda()
    return net, train(net, 4096, 6)


def leak() -> Any:
    net = Net().cuda()
    return net, train(net, 4096, 8, keeps=True)


def rank(number: int) -> Any:
    net = Net().cuda()
    return net, train(net, 4096 * (1 + number), 3)


def compiled() -> Any:
    net = Net().cuda()
    return net, train(torch.compile(net), 4096, 4)


def fragmented() -> Any:
    blocks = [torch.empty(6 * MIB, dtype=torch.uint8, device="cuda") for _ in range(60)]
    kept = blocks[::3]
    del blocks
    large = [torch.empty(15 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    return kept, large


def out_of_memory() -> Any:
    net = Net().cuda()
    held: list[Any] = []
    try:
        for rows in growing():
            x = torch.randn(rows, 512, device="cuda")
            held.append(net(x))
    except torch.OutOfMemoryError:
        return net, held
    raise RuntimeError("the memory did not run out")


def growing() -> Iterator[int]:
    for power in range(14, 30):
        yield 1 << power
