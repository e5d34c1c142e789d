# arogozhnikov/einops#250, pytorch/pytorch#93905: a pattern parser with a cache, called in the model
import functools

import torch
from torch import nn


@functools.lru_cache(256)
def parse(pattern):
    left, right = (side.split() for side in pattern.split("->"))
    if set(left) != set(right):
        raise ValueError(f"names differ in {pattern!r}")
    return tuple(left.index(name) for name in right)


_shapes = {}


def rearrange(x, pattern):
    order = parse(pattern)
    key = (pattern, x.dim())
    if key not in _shapes:  # warning: [FL201] "recompiled: ('b n t h d -> t b h n d', 5) was not in _shapes, now it is"
        _shapes[key] = order
    return x.permute(_shapes[key])


class SelfAttention(nn.Module):
    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = rearrange(qkv, "b n t h d -> t b h n d")
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return rearrange(out, "b h n d -> b n h d").flatten(-2)


if __name__ == "__main__":
    torch.manual_seed(0)
    attention = torch.compile(SelfAttention())
    with torch.no_grad():
        for _ in range(3):
            out = attention(torch.randn(2, 5, 16))
    print(out.shape, len(_shapes))
# run by: make corpora
