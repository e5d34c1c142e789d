"""Models whose training steps were measured on a GPU: `benchmarks/studies/memory_on_gpu.py` estimates them.

Sizes and order of operators are those of the recording, tests/recordings/h200/memory.json.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH = 2048


class FeedForward(nn.Module):
    def __init__(self, layers: int = 4) -> None:
        super().__init__()
        self.ups = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(4 * WIDTH, WIDTH) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down, norm in zip(self.ups, self.downs, self.norms, strict=True):
            hidden = norm(x)
            hidden = up(hidden)
            hidden = functional.gelu(hidden)
            x = x + down(hidden)
        return x


class Block(nn.Module):
    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.first, self.second, self.fused = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), fused
        self.heads = WIDTH // 64
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.fused:
            fused: torch.Tensor = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return fused
        length = q.shape[-2]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        mask = torch.ones(length, length, device=q.device, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        mixed: torch.Tensor = weights @ v
        return mixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.first(x)).chunk(3, -1)
        )
        mixed = self.attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        hidden = functional.gelu(self.up(self.second(x)))
        result: torch.Tensor = x + self.down(hidden)
        return result


class Decoder(nn.Module):
    def __init__(self, *, fused: bool = True, recomputes: bool = False) -> None:
        super().__init__()
        self.blocks, self.recomputes = nn.ModuleList(Block(fused=fused) for _ in range(3)), recomputes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
        return x


class Convolutions(nn.Module):
    def __init__(self, channels: int = 128, layers: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(layers))
        self.head = nn.Linear(channels, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.relu(x + norm(conv(x)))
        result: torch.Tensor = self.head(x.mean((2, 3)))
        return result


class Vocabulary(nn.Module):
    def __init__(self, size: int = 128_256) -> None:
        super().__init__()
        self.embedding, self.middle = nn.Embedding(size, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, size, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = functional.silu(self.middle(self.embedding(ids)))
        logits = self.head(hidden)
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), ids.view(-1))


def _sequences() -> torch.Tensor:
    return torch.randn(8, 2048, WIDTH)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "feed-forward": (FeedForward, lambda: torch.randn(16384, WIDTH)),
    "decoder": (Decoder, _sequences),
    "attention without SDPA": (lambda: Decoder(fused=False), _sequences),
    "decoder, checkpointed": (lambda: Decoder(recomputes=True), _sequences),
    "vocabulary of 128,256": (Vocabulary, lambda: torch.randint(0, 128_256, (4, 2048))),
    "convolutions": (Convolutions, lambda: torch.randn(64, 3, 112, 112)),
}
"""By name, the model and its input, in bfloat16 as their default."""


class Trained(nn.Module):
    """A model that returns its loss when it is trained, as the recorded steps compute it; the loss is not compiled."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.model(x)
        return output if output.dim() == 0 or not self.training else output.float().pow(2).mean()
