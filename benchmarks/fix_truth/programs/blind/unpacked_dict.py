"""Keys in any order: their values are joined, one is first, and they are counted."""
import torch

# fuselight: order({"a": f32[2], "b": f32[2]})
# fuselight: order({"b": f32[2], "a": f32[2]})
@torch.compile
def order(parts):
    first = next(iter(parts.values()))
    return torch.cat(list(parts.values())) * first.sum()

# fuselight: walked({"a": f32[2], "b": f32[2]})
# fuselight: walked({"b": f32[2], "a": f32[2]})
@torch.compile
def walked(parts):
    out = torch.ones(2)
    for name, value in parts.items():
        out = out * 0.5 + value * len(name)
    return out

def inner(a, **rest):
    return a * 2 + sum(rest.values())

# fuselight: called({"a": f32[2], "b": f32[2]})
# fuselight: called({"b": f32[2], "a": f32[2]})
@torch.compile
def called(parts):
    return inner(**parts), {name: value + 1 for name, value in parts.items()}

def _both(function):
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    return function({"a": a, "b": b}), function({"b": b, "a": a})

def probe_order():
    """output"""
    return _both(order)

def probe_walked():
    """output"""
    return _both(walked)

def probe_called():
    """output"""
    return _both(called)

def probe_called_numbers():
    """other numbers of two kinds"""
    return called({"c": 1, "a": torch.ones(2), "b": 0.5})
