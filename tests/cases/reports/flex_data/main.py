# pytorch/pytorch#154009: frozen dataclasses as default arguments, with a derived property
from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch


@dataclass(frozen=True)
class FlexData:
    dtype: torch.dtype | None = None
    scale: torch.Tensor | None = None

    @property
    def is_per_batch(self):
        return self.scale is not None and len(self.scale) > 1


@dataclass(frozen=True)
class FlexContext:
    lhs: FlexData = field(default_factory=FlexData)
    out: FlexData = field(default_factory=FlexData)


def matmul(x, w, context=FlexContext()):
    if context.lhs.dtype is not None:
        x = x.to(context.lhs.dtype)
    y = x.to(w.dtype) @ w
    if context.out.scale is not None:
        scale = context.out.scale
        y = y * (scale[:, None] if context.out.is_per_batch else scale)
    return y


@torch.compile
def layer(x, w, scale):
    context = FlexContext(lhs=FlexData(torch.bfloat16))
    # warning: [GB0147] "graph break: `__main__.FlexData` cannot be traced"
    context = replace(context, out=FlexData(scale=scale))
    # warning: [FL201] "recompiled: scale was a tensor, now None"
    # info: [FL201] "recompiled: scale.size(0) was 1, now 6"
    return matmul(torch.relu(x), w, context)


if __name__ == "__main__":
    torch.manual_seed(0)
    w = torch.randn(8, 4)
    for scale in (torch.ones(1), torch.rand(6), None):
        print(layer(torch.randn(6, 8), w, scale).shape)
