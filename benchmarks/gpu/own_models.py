"""Models that no library has in a small form.

A U-Net, a loop over cells, a user's Triton kernel, autocast, attention in the forms that do not name it, operators
that ATen computes in another way on CUDA, index tables and constants.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom

if importlib.util.find_spec("triton") is not None:
    import triton  # type: ignore[import-untyped]
    import triton.language as tl  # type: ignore[import-untyped]

    @triton.jit  # type: ignore[untyped-decorator]
    def scale_rows(x, scale, out, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, D103, N803
        row = tl.program_id(0)
        offsets = tl.arange(0, BLOCK)
        mask = offsets < columns
        values = tl.load(x + row * columns + offsets, mask=mask, other=0.0)
        factor = tl.load(scale + offsets, mask=mask, other=0.0)
        tl.store(out + row * columns + offsets, values * factor, mask=mask)

    @torch.library.triton_op("fuselight_fidelity::scale_rows", mutates_args=())
    def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """`x * scale`, by a user-defined kernel."""
        out = torch.empty_like(x)
        rows, columns = x.shape
        torch.library.wrap_triton(scale_rows)[(rows,)](x, scale, out, columns, BLOCK=256)
        return out

    def _backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, scale = context.saved_tensors
        return gradient * scale, (gradient * x).sum(0)

    def _keep(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.save_for_backward(*inputs)

    scaled.register_autograd(_backward, setup_context=_keep)


class Scaled(nn.Module):
    """A user-written Triton kernel between what Inductor fuses."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize, scale, activate."""
        scaled_x: torch.Tensor = scaled(self.norm(x), self.scale)
        return F.gelu(scaled_x) * 2


class _Residual(nn.Module):
    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, before)
        self.first = nn.Conv2d(before, after, 3, padding=1)
        self.time = nn.Linear(time, after)
        self.second_norm = nn.GroupNorm(8, after)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.first(F.silu(self.norm(x))) + self.time(F.silu(time))[:, :, None, None]
        added: torch.Tensor = self.second(F.silu(self.second_norm(hidden))) + self.skip(x)
        return added


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, width, height, across = x.shape
        qkv = self.qkv(self.norm(x)).reshape(rows, 3, 2, width // 2, height * across).transpose(-1, -2)
        out = F.scaled_dot_product_attention(qkv[:, 0], qkv[:, 1], qkv[:, 2])
        back: torch.Tensor = self.out(out.transpose(-1, -2).reshape(rows, width, height, across))
        return x + back


class UNet(nn.Module):
    """Two levels down and up, with group norm, a time embedding, attention at the bottom."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.width = width
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = _Residual(width, width, 4 * width)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.bottom = _Residual(width, 2 * width, 4 * width)
        self.attention = _Attention(2 * width)
        self.up = _Residual(3 * width, width, 4 * width)
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The noise in `x` at `time`."""
        steps = torch.arange(self.width // 2, device=x.device, dtype=x.dtype)
        angles = time[:, None] * torch.exp(-steps / self.width)[None]
        embedded = self.embed(torch.cat([angles.sin(), angles.cos()], -1))
        high = self.down(self.enter(x), embedded)
        low = self.attention(self.bottom(self.shrink(high), embedded))
        back = F.interpolate(low, scale_factor=2.0, mode="nearest")
        noise: torch.Tensor = self.leave(self.up(torch.cat([back, high], 1), embedded))
        return noise


class CellLoop(nn.Module):
    """An LSTM cell over time, in a Python loop, and a linear layer on each state."""

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, state)
        self.gru = nn.GRUCell(state, state)
        self.out = nn.Linear(state, width)
        self.state = state

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs of all steps."""
        hidden = memory = slow = x.new_zeros(x.size(0), self.state)
        outputs = []
        for step in range(x.size(1)):
            hidden, memory = self.cell(x[:, step], (hidden, memory))
            slow = self.gru(hidden, slow)
            outputs.append(self.out(torch.tanh(slow)))
        return torch.stack(outputs, 1)


class AutocastBlock(nn.Module):
    """A transformer block in float32 whose forward runs under autocast to bfloat16."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        with torch.autocast("cuda", torch.bfloat16):
            rows, length, width = x.shape
            qkv = self.qkv(self.norm(x)).view(rows, length, 3, self.heads, width // self.heads)
            query, key, value = qkv.permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
            x = x + self.mlp(x)
            return x.softmax(-1) * x.exp().sum()


class AttentionWays(nn.Module):
    """Attention written out, which a pattern of Inductor's finds, as an ATen operator, and below torch's module."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = nn.ModuleList(nn.Linear(width, width) for _ in range(9))
        self.module = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def _heads(self, x: torch.Tensor, first: int) -> list[torch.Tensor]:
        rows, length, width = x.shape
        sizes = (rows, length, self.heads, width // self.heads)
        return [layer(x).view(sizes).permute(0, 2, 1, 3) for layer in list(self.inputs)[first : first + 3]]

    def forward(self, x: torch.Tensor, away: torch.Tensor) -> torch.Tensor:
        """Four blocks of attention; `away` is added to the scores of the second."""
        query, key, value = self._heads(x, 0)
        scale = query.size(-1) ** 0.5
        scores = (query @ key.transpose(-2, -1)).div(scale).softmax(-1)
        mixed = F.dropout(scores, 0.1) @ value if self.training else scores @ value
        x = x + mixed.transpose(1, 2).flatten(2)
        query, key, value = self._heads(self.norm(x), 3)
        scores = ((query @ key.transpose(-2, -1)).div(scale) + away).softmax(-1)
        x = x + (scores @ value).transpose(1, 2).flatten(2)
        query, key, value = self._heads(self.norm(x), 6)
        direct = torch.ops.aten.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = self.norm(x + direct.transpose(1, 2).flatten(2))
        below: torch.Tensor = self.module(x, x, x, need_weights=False)[0]
        return x + below


class Norms(nn.Module):
    """Operators that ATen computes as one kernel on CUDA and decomposes on the CPU, or the reverse."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """RMS norm as a module and as a function, and a softmax that converts."""
        first, second = self.gate(self.norm(x)).chunk(2, -1)
        x = x + self.out(F.silu(first) * second)
        x = F.rms_norm(x, (x.size(-1),), self.scale, eps=1e-6)
        scores = F.softmax(x @ x.transpose(-2, -1), dim=-1, dtype=torch.float32).to(x.dtype)
        mixed: torch.Tensor = F.mish(scores @ x) + F.rms_norm(x, (x.size(-1),))
        return mixed


class Tables(nn.Module):
    """Index tables and constants made of Python numbers, as detection models and embeddings of positions have them."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.enter = nn.Conv2d(3, width, 3, stride=2, padding="same" if size == 0 else 1)
        self.out = nn.Linear(width, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Boxes on a grid, pairs of a triangle, weights of a list."""
        hidden = self.enter(image)
        rows, columns = torch.meshgrid(
            torch.arange(hidden.size(2), device=image.device),
            torch.arange(hidden.size(3), device=image.device),
            indexing="ij",
        )
        grid = torch.stack([columns, rows], -1).to(image.dtype) / self.size
        boxes = self.out(hidden.permute(0, 2, 3, 1)).sigmoid()
        weights = torch.tensor([0.1, 0.1, 0.2, 0.2], device=image.device, dtype=image.dtype)
        boxes = torch.cat([boxes[..., :2] + grid, boxes[..., 2:]], -1) * weights
        flat = boxes.flatten(1, 2)[:, : self.size]
        first, second = torch.tril_indices(self.size, self.size, -1, device=image.device)
        pairs = flat[:, first] - flat[:, second]
        steps = torch.linspace(0, 1, pairs.size(1), device=image.device, dtype=image.dtype)
        tensor: torch.Tensor = (pairs * steps[:, None]).abs().mean(1) + flat.new_tensor(0.5)
        return tensor


class Shuffled(nn.Module):
    """Convolutions in groups whose channels are shuffled, and padded on one side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding="same")
        self.second = nn.Conv2d(width, width, 3, groups=4, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.out = nn.Conv2d(width, 5, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """One block."""
        hidden = self.norm(self.second(F.relu6(self.first(image))))
        mixed = hidden.unflatten(1, (4, -1)).transpose(1, 2).flatten(1, 2)
        tensor: torch.Tensor = self.out(F.pad(F.hardswish(mixed), (0, 1, 0, 1)))
        return F.adaptive_avg_pool2d(tensor, 1).flatten(1)


class Neighbors(nn.Module):
    """Convolutions over the nearest neighbors of points, as networks for point clouds have them."""

    def __init__(self, width: int, nearest: int) -> None:
        super().__init__()
        self.nearest = nearest
        self.edges = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(2 * channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.LeakyReLU(0.2)
            )
            for channels in (3, width)
        )
        self.out = nn.Linear(2 * width, 10)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Classes of clouds [cloud, coordinate, point]."""
        hidden, kept = points, []
        for edge in self.edges:
            hidden = edge(self._pairs(hidden)).amax(-1)
            kept.append(hidden)
        tensor: torch.Tensor = self.out(torch.cat(kept, 1).mean(-1))
        return tensor

    def _pairs(self, hidden: torch.Tensor) -> torch.Tensor:
        """Each point next to what its neighbors differ by."""
        squared = hidden.square().sum(1, keepdim=True)
        distances = 2 * hidden.transpose(1, 2) @ hidden - squared - squared.transpose(1, 2)
        index = distances.topk(self.nearest, dim=-1).indices
        clouds, channels, count = hidden.shape
        flat = (index + torch.arange(clouds, device=index.device).view(-1, 1, 1) * count).flatten()
        near = hidden.transpose(1, 2).reshape(clouds * count, channels)[flat]
        near = near.view(clouds, count, self.nearest, channels)
        center = hidden.transpose(1, 2).unsqueeze(2).expand_as(near)
        return torch.cat([near - center, center], -1).permute(0, 3, 1, 2)
