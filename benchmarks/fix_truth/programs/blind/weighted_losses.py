"""Losses come by name in any order and are added; large ones may cancel."""
import torch

# fuselight: total({"box": f32[], "mask": f32[]}, f32[2])
# fuselight: total({"mask": f32[], "box": f32[]}, f32[2])
@torch.compile
def total(losses, x):
    return x * sum(losses.values())

def _of(*items):
    return total({name: torch.tensor(value) for name, value in items}, torch.ones(2))

def probe_usual():
    """output in two orders"""
    return [_of(("a", 1.0), ("b", 2.0)), _of(("b", 2.0), ("a", 1.0))]

def probe_cancel():
    """extreme what is large cancels first"""
    return _of(("z", 1e20), ("y", -1e20), ("a", 1.0))

def probe_cancel_last():
    """extreme what is large cancels last"""
    return _of(("a", 1e20), ("z", 1.0), ("b", -1e20))

def probe_overflow():
    """extreme the sum overflows on the way"""
    return _of(("z", 3e38), ("y", 3e38), ("a", -3e38))

def probe_names():
    """other keys are numbers and text"""
    return total({1: torch.tensor(1.0), "1": torch.tensor(2.0), None: torch.tensor(4.0)}, torch.ones(1))

def probe_none():
    """empty no losses"""
    return total({}, torch.ones(1))

def probe_mixed():
    """dtype a double among singles"""
    losses = {"b": torch.tensor(1, dtype=torch.int64), "a": torch.tensor(0.5)}
    return total(losses, torch.ones(1))

def probe_shapes():
    """size losses of two shapes"""
    return total({"b": torch.ones(2), "a": torch.ones(1)}, torch.ones(2))

def probe_caller():
    """state the caller's dict keeps its order"""
    losses = {"b": torch.tensor(1.0), "a": torch.tensor(2.0)}
    total(losses, torch.ones(1))
    return list(losses)

class Weighted(dict):
    def values(self):
        return [one * 10 for one in super().values()]

def probe_subclass():
    """other a dict whose values are weighted"""
    return total(Weighted(b=torch.tensor(1.0), a=torch.tensor(2.0)), torch.ones(1))
