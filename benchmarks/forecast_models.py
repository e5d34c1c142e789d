"""Small models whose inputs are more than tensors, for the comparison of forecasts with real calls.

Invariant: written for the comparison, and not looked at while forecasts were built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

GAIN = 3
"""Read by `Scheduled`."""


class Scheduled(nn.Module):
    """A step number, a float and a global."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 12)
        self.warmup, self.floor, self.name = 5, 0.1, "linear"

    def forward(self, x: torch.Tensor, step: int, rate: float = 0.5) -> Any:  # noqa: D102
        scale = rate * min(1.0, step / self.warmup) + self.floor
        return self.layer(x) * scale * GAIN


class Bucketed(nn.Module):
    """A list of tensors, and code that depends on sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(10))
        self.width = 10

    def forward(self, levels: list[torch.Tensor], *, stride: int = 2, keep: bool = True) -> Any:  # noqa: D102
        total: Any = sum(level[:, : self.width].sum(0) for level in levels)
        if levels[0].size(0) > 3:  # noqa: PLR2004
            total = total[::stride]
        return total * self.mix[: total.size(0)] if keep else total


class Routed(nn.Module):
    """Modes as strings, a dict, and modules in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        for index, expert in enumerate(self.experts):
            vars(expert)["index"] = index
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Any, options: dict[str, Any], mode: str = "all") -> Any:  # noqa: D102
        chosen: Any = self.experts if mode == "all" else [self.experts[options["expert"]]]
        out = sum(expert(x) * (expert.index + 1) for expert in chosen)
        return self.drop(out) + options["bias"]


class Broken(nn.Module):
    """A value that leaves compiled code, and code after it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.power, self.shift = 2, 1

    def forward(self, x: torch.Tensor, n: int, flag: bool = False) -> Any:  # noqa: D102, FBT001, FBT002
        h = self.first(x).relu()
        count = int((h > 100).sum().item())  # noqa: PLR2004
        h = h * (count + 1) ** self.power
        y = self.second(h) * n
        return y + self.shift if flag else y


class Recurrent(nn.Module):
    """A loop over a size, and a tuple of states."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 7)
        self.limit = 4

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> Any:  # noqa: D102
        h, bias = state
        for index in range(min(x.size(1), self.limit)):
            h = self.cell(x[:, index], h) + bias
        return h


class Pooled(nn.Module):
    """Images, with a break in the middle and a size that is read after it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)
        self.patch = 2

    def forward(self, image: torch.Tensor, grid: int = 2) -> Any:  # noqa: D102
        x = self.norm(self.conv(image)).relu()
        torch._dynamo.graph_break()  # noqa: SLF001
        x = nn.functional.avg_pool2d(x, self.patch)
        if x.size(-1) % grid == 0:
            x = x + 1
        return self.head(x.mean((2, 3)))


OWN: dict[str, Callable[[], tuple[nn.Module, dict[str, Any]]]] = {
    "scheduled": lambda: (Scheduled(), {"x": torch.randn(6, 12), "step": 3, "rate": 0.5}),
    "bucketed": lambda: (
        Bucketed(),
        {"levels": [torch.randn(5, 10), torch.randn(5, 10)], "stride": 2, "keep": True},
    ),
    "routed": lambda: (
        Routed(),
        {"x": torch.randn(4, 6), "options": {"expert": 1, "bias": 2}, "mode": "all"},
    ),
    "broken": lambda: (Broken(), {"x": torch.randn(6, 8), "n": 2, "flag": True}),
    "recurrent": lambda: (
        Recurrent(),
        {"x": torch.randn(4, 3, 5), "state": (torch.randn(4, 7), torch.randn(7))},
    ),
    "pooled": lambda: (Pooled(), {"image": torch.randn(4, 3, 8, 8), "grid": 2}),
}
"""A model, and the arguments of its call by name."""
