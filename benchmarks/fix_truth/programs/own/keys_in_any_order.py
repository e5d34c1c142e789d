"""Right: a dict whose values are added."""

import torch


# fuselight: loss({"a": f32[3], "b": f32[3]})
# fuselight: loss({"b": f32[3], "a": f32[3]})
@torch.compile
def loss(parts):
    return sum(parts.values())


def probe_orders():
    """other: the orders of three keys."""
    a, b = torch.ones(2), torch.arange(2.0)
    return loss({"x": a, "y": b}), loss({"y": b, "x": a})


def probe_mixed_keys():
    """other: keys that cannot be compared."""
    return loss({1: torch.ones(2), "a": torch.ones(2)})
