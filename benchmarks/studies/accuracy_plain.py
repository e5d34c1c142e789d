"""Models that torch alone can make, for `benchmarks/studies/accuracy_models.py`: small, and of many kinds of operators."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (wide * scale).to(x.dtype) * self.weight


class Decoder(nn.Module):
    """A decoder with rotary positions, grouped keys, a gated layer and a loss."""

    def __init__(self, width: int = 64, heads: int = 4, words: int = 211) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.size = heads, width // heads
        self.embedding = nn.Embedding(words, width)
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, width)
        self.out, self.head = nn.Linear(width, width), nn.Linear(width, words)
        self.gate, self.up, self.down = (nn.Linear(a * width, b * width) for a, b in ((1, 2), (1, 2), (2, 1)))
        self.first, self.second = RootMeanSquareNorm(width), RootMeanSquareNorm(width)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
        rates = 10000 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size)
        angles = torch.outer(steps, rates)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embedding(ids)
        normed = self.first(x)
        batch, length, _ = normed.shape
        query = self.query(normed).view(batch, length, self.heads, -1).transpose(1, 2)
        key, value = self.key_value(normed).view(batch, length, self.heads, -1).transpose(1, 2).chunk(2, 1)
        key, value = (part.repeat_interleave(2, 1) for part in (key, value))
        mixed = functional.scaled_dot_product_attention(
            self.rotated(query), self.rotated(key), value, is_causal=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        normed = self.second(x)
        x = x + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        logits = self.head(x)
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        return loss, logits


class Pictures(nn.Module):
    """Convolutions, norms over batches and groups, pools."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.SiLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, groups=4),
            nn.GroupNorm(8, 32),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.layers(x).flatten(1))
        return logits


class Experts(nn.Module):
    """Each row goes to two of four experts, whose results are added by index."""

    def __init__(self, width: int = 32, count: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(width, count)
        self.up = nn.Parameter(torch.randn(count, width, 2 * width) / 8)
        self.down = nn.Parameter(torch.randn(count, 2 * width, width) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        gates = torch.zeros_like(x[:, : self.up.shape[0]]).scatter(-1, chosen, weights)
        hidden = functional.gelu(torch.einsum("nw,ewh->enh", x, self.up), approximate="tanh")
        return torch.einsum("enh,ehw,ne->nw", hidden, self.down, gates)


class Denoiser(nn.Module):
    """Down, up, a skip, and an embedding of time."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.time = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, 2 * width))
        self.inward, self.outward = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(2 * width, 3, 3, padding=1)
        self.down, self.norm = nn.Conv2d(width, width, 3, stride=2, padding=1), nn.GroupNorm(4, width)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(-torch.arange(4, device=x.device) * 0.7)
        angles = step[:, None] * rates
        scale, shift = self.time(torch.cat((angles.sin(), angles.cos()), -1).to(x.dtype)).chunk(2, -1)
        skip = functional.silu(self.inward(x))
        hidden = self.norm(self.down(skip)) * (1 + scale[:, :, None, None]) + shift[:, :, None, None]
        wide = functional.interpolate(functional.silu(hidden), scale_factor=2.0, mode="nearest")
        out: torch.Tensor = self.outward(torch.cat((wide, skip), 1))
        return out


class Recurrent(nn.Module):
    """A cell with gates, for each step of a sequence."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.head = nn.GRUCell(width, width), nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        logits: torch.Tensor = self.head(torch.stack(states, 1)).log_softmax(-1)
        return logits


class Edges(nn.Module):
    """Attention over the edges of a graph: gathers, a softmax by segment, sums by index."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project, self.score = nn.Linear(width, width), nn.Linear(2 * width, 1)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hidden = self.project(x)
        ends = torch.cat((hidden[source], hidden[target]), -1)
        weights = functional.leaky_relu(self.score(ends).squeeze(-1), 0.2).exp()
        total = torch.zeros_like(x[:, 0]).index_add(0, target, weights)
        messages = hidden[source] * (weights / (total[target] + 1e-6))[:, None]
        return functional.elu(torch.zeros_like(hidden).index_add(0, target, messages))


class Clicks(nn.Module):
    """Bags of embeddings, products of all pairs, a loss with logits."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tables = nn.ModuleList(nn.Embedding(50, width) for _ in range(4))
        self.dense = nn.Sequential(nn.Linear(6, width), nn.ReLU())
        self.top = nn.Linear(width + 10, 1)

    def forward(self, dense: torch.Tensor, ids: torch.Tensor, clicked: torch.Tensor) -> torch.Tensor:
        first = self.dense(dense)
        parts = [first, *(table(ids[:, at]).sum(1) for at, table in enumerate(self.tables))]
        rows = torch.stack(parts, 1)
        above = torch.triu_indices(5, 5, offset=1, device=rows.device)
        pairs = torch.bmm(rows, rows.transpose(1, 2))[:, above[0], above[1]]
        logits = self.top(torch.cat((first, pairs), -1)).squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logits, clicked)


PLAIN = {
    "Decoder": "i64[2, 24] % 200",
    "Pictures": "f32[4, 3, 32, 32]",
    "Experts": "f32[32, 32]",
    "Denoiser": "f32[2, 3, 16, 16], i64[2] % 100",
    "Recurrent": "f32[4, 6, 24]",
    "Edges": "f32[20, 16], i64[60] % 20, i64[60] % 20",
    "Clicks": "f32[16, 6], i64[16, 4, 3] % 50, f32[16]",
}
"""The inputs of each class in the notation of directives (docs/inputs.md)."""
