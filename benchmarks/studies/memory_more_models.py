"""Further models whose training steps are measured on a GPU, one of each kind that users train.

Each has a form that differs from the others in what it keeps: gates, masks, tied or frozen weights, loops, scatter.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, TOKENS, BATCH = 1024, 1024, 8


def _flat(rows: int = 16384, width: int = WIDTH) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(rows, width)


def _sequence(tokens: int = TOKENS, width: int = WIDTH, batch: int = BATCH) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(batch, tokens, width)


def _ids(limit: int, *shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, limit, shape)


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def _mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, is_causal: bool = False) -> torch.Tensor:
    mixed: torch.Tensor = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return mixed.transpose(1, 2).flatten(2)


class Sum(nn.Module):
    """Adds what each of its parts makes of the sum so far."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = x + part(x)
        return x


class Gated(nn.Module):
    """A feed-forward layer with a gate."""

    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor] = functional.silu) -> None:
        super().__init__()
        self.norm, self.activation = nn.RMSNorm(WIDTH), activation
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        result: torch.Tensor = self.down(self.activation(self.gate(x)) * self.up(x))
        return result


class Grouped(nn.Module):
    """Attention with rotated positions, and fewer heads for keys than for queries."""

    def __init__(self, heads: int = 16, groups: int = 4) -> None:
        super().__init__()
        self.norm, self.heads, self.groups = nn.RMSNorm(WIDTH), heads, groups
        size = WIDTH // heads
        self.q, self.kv = (
            nn.Linear(WIDTH, WIDTH, bias=False),
            nn.Linear(WIDTH, 2 * groups * size, bias=False),
        )
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        angles = torch.outer(torch.arange(TOKENS).float(), 1e4 ** -torch.linspace(0, 1, size // 2))
        self.register_buffer("cosines", angles.cos().to(torch.get_default_dtype()))
        self.register_buffer("sines", angles.sin().to(torch.get_default_dtype()))

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        cosines, sines = self.get_buffer("cosines"), self.get_buffer("sines")
        return torch.cat([a * cosines - b * sines, a * sines + b * cosines], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        k, v = (_split(part, self.groups) for part in self.kv(x).chunk(2, -1))
        q, k = self.rotated(_split(self.q(x), self.heads)), self.rotated(k)
        k, v = (part.repeat_interleave(self.heads // self.groups, 1) for part in (k, v))
        result: torch.Tensor = self.out(_mixed(q, k, v, is_causal=True))
        return result


class Experts(nn.Module):
    """Each token goes through two of eight feed-forward layers: all are computed, and weighted."""

    def __init__(self, experts: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)) for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = self.router(x).topk(2, -1)
        weights = torch.zeros_like(self.router(x)).scatter(-1, best.indices, best.values.softmax(-1))
        result = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            result = result + weights[..., index : index + 1] * expert(x)
        return result


class Masked(nn.Module):
    """Attention by matrix products, with a mask, a bias by distance, or a window."""

    def __init__(self, kind: str, heads: int = 8) -> None:
        super().__init__()
        self.kind, self.heads = kind, heads
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.zeros(heads, 2 * TOKENS - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (_split(part, self.heads) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        steps = torch.arange(x.shape[1], device=x.device)
        distance = steps[:, None] - steps
        if self.kind == "bias":
            scores = scores + self.bias[:, distance + TOKENS - 1]
        elif self.kind == "window":
            scores = scores.masked_fill((distance < 0) | (distance > 128), -1e4)
        else:
            scores = scores.tril() - 1e4 * torch.ones_like(scores).triu(1)
        result: torch.Tensor = self.out((scores.float().softmax(-1).to(x.dtype) @ v).transpose(1, 2).flatten(2))
        return result


class Linear(nn.Module):
    """Attention whose cost grows with the length alone."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (_split(part, 16) for part in self.qkv(x).chunk(3, -1))
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        mixed = q @ (k.transpose(-2, -1) @ v)
        return (mixed / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)).transpose(1, 2).flatten(2)


class Mixer(nn.Module):
    """Mixes tokens, then channels."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.tokens = nn.Sequential(nn.Linear(TOKENS, TOKENS), nn.GELU(), nn.Linear(TOKENS, TOKENS))
        self.channels = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        result: torch.Tensor = self.channels(x)
        return result


class Scan(nn.Module):
    """A state that decays, by a running sum."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.inner(x).chunk(2, -1)
        decay = functional.logsigmoid(gate.float()).cumsum(1)
        state = (value.float() * (-decay.clamp(min=-20)).exp()).cumsum(1) * decay.clamp(min=-20).exp()
        result: torch.Tensor = self.out(state.to(x.dtype) * functional.silu(gate))
        return result


class Recurrent(nn.Module):
    """A cell, called step by step."""

    def __init__(self, steps: int = 12) -> None:
        super().__init__()
        self.inner, self.state, self.steps = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH), steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros_like(x)
        for _ in range(self.steps):
            (a, b, c), (d, e, f) = self.inner(x).chunk(3, -1), self.state(h).chunk(3, -1)
            update, reset = torch.sigmoid(a + d), torch.sigmoid(b + e)
            h = update * h + (1 - update) * torch.tanh(c + reset * f)
        return h


class Modulated(nn.Module):
    """A block whose norms are scaled and shifted by a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.condition = nn.LayerNorm(WIDTH, elementwise_affine=False), nn.Linear(WIDTH, 6 * WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s1, b1, g1, s2, b2, g2 = self.condition(functional.silu(x.mean(1, keepdim=True))).chunk(6, -1)
        q, k, v = (_split(part, 16) for part in self.qkv(self.norm(x) * (1 + s1) + b1).chunk(3, -1))
        x = x + g1 * self.out(_mixed(q, k, v))
        hidden = functional.gelu(self.up(self.norm(x) * (1 + s2) + b2), approximate="tanh")
        result: torch.Tensor = x + g2 * self.down(hidden)
        return result


class Latents(nn.Module):
    """A few latents read a long sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(256, WIDTH))
        self.q, self.kv, self.layers = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            Sum(Gated(), Gated()),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        latents = self.latents.expand(x.shape[0], -1, -1)
        k, v = (_split(part, 16) for part in self.kv(x).chunk(2, -1))
        result: torch.Tensor = self.layers(latents + _mixed(_split(self.q(latents), 16), k, v))
        return result


class Language(nn.Module):
    """Tokens to a loss; weights of the head are those of the embedding if tied."""

    def __init__(self, *, tied: bool = False, chunks: int = 1, smoothing: float = 0.0) -> None:
        super().__init__()
        self.embedding, self.layers = nn.Embedding(32_000, WIDTH), Sum(Grouped(), Gated())
        self.head = nn.Linear(WIDTH, 32_000, bias=False)
        self.chunks, self.smoothing = chunks, smoothing
        if tied:
            self.head.weight = self.embedding.weight

    def loss(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(
            self.head(x).float(), ids, label_smoothing=self.smoothing, reduction="sum"
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x, ids = self.layers(self.embedding(ids)).flatten(0, 1), ids.flatten()
        if self.chunks == 1:
            return self.loss(x, ids)
        parts = zip(x.chunk(self.chunks), ids.chunk(self.chunks), strict=True)
        losses = [checkpoint(self.loss, *part, use_reentrant=False) for part in parts]
        return torch.stack(losses).sum()


class Recommender(nn.Module):
    """Embeddings of categories, and the products of all pairs."""

    def __init__(self, fields: int = 26) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20_000, 128) for _ in range(fields))
        self.top = nn.Sequential(nn.Linear(fields * fields, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        vectors = torch.stack([table(ids[:, index]) for index, table in enumerate(self.tables)], 1)
        result: torch.Tensor = self.top((vectors @ vectors.transpose(1, 2)).flatten(1))
        return result


class Towers(nn.Module):
    """Two towers, and the similarity of every pair."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(Gated(), nn.Linear(WIDTH, 256)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = functional.normalize(self.first(x), dim=-1), functional.normalize(self.second(x), dim=-1)
        logits = 20 * a @ b.T
        labels = torch.arange(len(x), device=x.device)
        loss: torch.Tensor = functional.cross_entropy(logits, labels)
        return loss + functional.cross_entropy(logits.T, labels)


class Encoded(nn.Module):
    """A variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, 512))
        self.decoder = nn.Sequential(nn.Linear(256, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, deviation = self.encoder(x).chunk(2, -1)
        made = self.decoder(mean + torch.randn_like(mean) * (0.5 * deviation).exp())
        divergence = (mean.pow(2) + deviation.exp() - deviation - 1).mean()
        loss: torch.Tensor = functional.mse_loss(made, x) + divergence
        return loss


class Messages(nn.Module):
    """Nodes send messages along edges."""

    def __init__(self, edges: int = 100_000) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.register_buffer("edges", torch.randint(0, 8192, (2, edges)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        source, target = self.get_buffer("edges")
        sent = functional.relu(self.message(torch.cat([x[source], x[target]], -1)))
        received = torch.zeros_like(x).index_add(0, target, sent)
        result: torch.Tensor = self.update(torch.cat([x, received], -1))
        return result


class Adapted(nn.Module):
    """Frozen layers with small ones beside them, or with a head that is trained."""

    def __init__(self, *, low_rank: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8)).requires_grad_(requires_grad=False)
        self.head = nn.Linear(WIDTH, WIDTH)
        self.downs = nn.ModuleList(nn.Linear(WIDTH, 16, bias=False) for _ in range(8 * low_rank))
        self.ups = nn.ModuleList(nn.Linear(16, WIDTH, bias=False) for _ in range(8 * low_rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            made = layer(x)
            if len(self.downs):
                made = made + self.ups[index](self.downs[index](x))
            x = functional.gelu(made)
        result: torch.Tensor = self.head(x)
        return result


class InPlace(nn.Module):
    """Activations that change their input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).mul_(0.5).relu_()
        return x


class Highway(nn.Module):
    """Each layer chooses between its input and what it makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            made, gate = layer(x).chunk(2, -1)
            x = torch.lerp(x, torch.tanh(made), torch.sigmoid(gate))
        return x


class Waves(nn.Module):
    """Positions as sines of many frequencies, then a deep network that reads them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(WIDTH if index else 60, WIDTH) for index in range(4))
        self.second = nn.ModuleList(nn.Linear(WIDTH if index else WIDTH + 60, WIDTH) for index in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = torch.cat([f(x * 2.0**n) for n in range(10) for f in (torch.sin, torch.cos)], -1)
        h = waves
        for layer in self.first:
            h = functional.relu(layer(h))
        h = torch.cat([h, waves], -1)
        for layer in self.second:
            h = functional.relu(layer(h))
        return h


class Recomputed(nn.Module):
    """Gated layers, each of which is computed again in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Gated() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return x


class Patches(nn.Module):
    """A picture as a sequence of its patches, by `unfold`, through two layers of torch's encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = nn.Linear(768, WIDTH), nn.Parameter(torch.zeros(196, WIDTH))
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, 0.1, "gelu", batch_first=True, norm_first=True),
            2,
            enable_nested_tensor=False,
        )
        self.head = nn.Linear(WIDTH, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.unfold(x, 16, stride=16).transpose(1, 2)
        result: torch.Tensor = self.head(self.layers(self.embedding(x) + self.position).mean(1))
        return result


def _dropped(*, norm: Callable[[int], nn.Module] = nn.LayerNorm, dropout: float = 0.1) -> nn.Module:
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), norm(WIDTH), nn.ReLU(), nn.Dropout(dropout))
            for _ in range(6)
        )
    )


MORE: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "gated feed-forward": (lambda: Sum(*(Gated() for _ in range(4))), _flat()),
    "GEGLU": (lambda: Sum(*(Gated(functional.gelu) for _ in range(4))), _flat()),
    "squared ReLU": (lambda: Sum(*(Gated(lambda x: x.relu().square()) for _ in range(4))), _flat()),
    "grouped queries, rotated": (lambda: Sum(Grouped(), Gated(), Grouped(), Gated()), _sequence()),
    "one head of keys": (lambda: Sum(Grouped(groups=1), Gated()), _sequence()),
    "experts, all computed": (lambda: Sum(Experts(), Experts()), _flat()),
    "attention with a mask": (lambda: Sum(Masked("mask"), Gated()), _sequence()),
    "attention with a bias": (lambda: Sum(Masked("bias"), Gated()), _sequence()),
    "attention in a window": (lambda: Sum(Masked("window"), Gated()), _sequence()),
    "linear attention": (lambda: Sum(Linear(), Gated(), Linear()), _sequence()),
    "MLP-Mixer": (lambda: Sum(Mixer(), Mixer()), _sequence()),
    "decaying state": (lambda: Sum(Scan(), Scan()), _sequence()),
    "recurrent cell": (Recurrent, _flat(8192)),
    "diffusion transformer": (lambda: Sum(Modulated(), Modulated()), _sequence()),
    "latents": (Latents, _sequence(4096)),
    "language model": (Language, _ids(32_000, 8, TOKENS)),
    "language model, tied": (lambda: Language(tied=True), _ids(32_000, 8, TOKENS)),
    "loss in chunks": (lambda: Language(chunks=8), _ids(32_000, 8, TOKENS)),
    "smoothed labels": (lambda: Language(smoothing=0.1), _ids(32_000, 4, TOKENS)),
    "recommender": (Recommender, _ids(20_000, 16384, 26)),
    "two towers": (Towers, _flat(8192)),
    "variational autoencoder": (Encoded, _flat(65536)),
    "messages on a graph": (Messages, _flat(8192)),
    "low-rank adapters": (lambda: Adapted(low_rank=True), _flat(32768)),
    "frozen, with a head": (lambda: Adapted(low_rank=False), _flat(32768)),
    "in place": (InPlace, _flat(32768)),
    "highway": (Highway, _flat(32768)),
    "waves": (Waves, lambda: torch.randn(65536, 3)),
    "checkpointed feed-forward": (Recomputed, _flat(32768)),
    "patches, torch's encoder": (Patches, lambda: torch.randn(32, 3, 224, 224)),
    "dropout": (_dropped, _flat(65536)),
    "batch norm": (lambda: _dropped(norm=nn.BatchNorm1d, dropout=0.0), _flat(65536)),
    "group norm": (lambda: _dropped(norm=lambda width: nn.GroupNorm(16, width), dropout=0.0), _flat(65536)),
    "tanh, deep": (
        lambda: nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(16))),
        _flat(32768),
    ),
    "regression": (
        lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Softplus(), nn.Linear(WIDTH, 1)),
        _flat(65536),
    ),
}
"""By name, the model and its input, in bfloat16 as their default."""
