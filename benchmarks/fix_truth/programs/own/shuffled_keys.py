"""The order of keys decides the result."""
import torch


# fuselight: f({"a": f32[3], "b": f32[3]})
# fuselight: f({"b": f32[3], "a": f32[3]})
@torch.compile
def f(parts):
    y = torch.zeros(3)
    for value in parts.values():
        y = y * 2 + value
    return y


def probe_order():
    """output: by insertion."""
    return f({"b": torch.ones(3), "a": torch.zeros(3)})


def probe_more():
    """size: three parts."""
    return f({"c": torch.ones(3), "b": torch.ones(3), "a": torch.zeros(3)})
