"""Targets whose peaks a page of docs/results/ has, estimated and measured: `benchmarks/studies/measured_peaks.py`.

The directives are for a CPU; a GPU gets larger inputs.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


# fuselight: FeedForward()(f32[2048, 256], train=True)
class FeedForward(nn.Module):
    """A block with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.down(functional.gelu(self.up(self.norm(x))))
        return x + hidden


# fuselight: Attention()(f32[4, 256, 128], train=True)
class Attention(nn.Module):
    """Scores that are written out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(128, 384), nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / 32**0.5).softmax(-1)
        out: torch.Tensor = self.out((weights @ v).transpose(1, 2).flatten(-2))
        return out


# fuselight: Vocabulary()(i64[512] % 8000, train=True)
class Vocabulary(nn.Module):
    """Logits of many words and their loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(8000, 64), nn.Linear(64, 8000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(self.embedding(tokens)), tokens)


# fuselight: Encoder()(f32[8, 128, 128], train=True)
class Encoder(nn.Module):
    """torch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


# fuselight: Convolutions()(f32[4, 3, 64, 64], train=True)
class Convolutions(nn.Module):
    """Convolutions with batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(32), nn.BatchNorm2d(64)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(x)))


# fuselight: Recurrent()(f32[16, 64, 64], train=True)
class Recurrent(nn.Module):
    """An LSTM, which torch.compile leaves as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 128, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lstm(x)[0]
        return out
