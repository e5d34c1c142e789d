"""Code that torch.compile captures completely: there must be no findings."""

import torch
import torch.nn.functional as F
from torch import nn


# fuselight: Transformer()(f32[2, 8, 16])
# fuselight: Transformer()(f32[2, 8, 16])
class Transformer(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.heads = heads
        self.mix = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


# fuselight: Trained()(f32[4, 3, 8, 8], train=True)
# fuselight: Trained()(f32[4, 3, 8, 8], train=True)
class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x):
        return self.layers(x).mean()


# fuselight: chooses_without_branching(f32[4])
def chooses_without_branching(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


# fuselight: a_dict_of_results(f32[4], {"scale": 2.0})
# fuselight: a_dict_of_results(f32[4], {"scale": 2.0})
def a_dict_of_results(x, config):
    return {"scaled": x * config["scale"], "parts": [x.sin(), x.cos()]}


# fuselight: caught(f32[4])
def caught(x):
    try:
        raise ValueError("as a jump")
    except ValueError:
        return x + 1
