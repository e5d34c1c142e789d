"""Options come in a dict in any order; one is taken out of the caller's dict."""
import torch

# fuselight: apply({"a": f32[3], "b": f32[3]}, f32[3])
# fuselight: apply({"b": f32[3], "a": f32[3]}, f32[3])
@torch.compile
def apply(parts, x):
    bias = parts.pop("bias", None)
    x = x * parts["a"] + parts["b"]
    parts["out"] = x
    if bias is not None:
        x = x + bias
    return x

# fuselight: pick({"a": f32[3], "b": f32[3]})
# fuselight: pick({"b": f32[3], "a": f32[3]})
@torch.compile
def pick(parts):
    return parts["a"] - parts["b"] * len(parts)

def probe_caller():
    """state of the caller's dict"""
    parts = {"bias": torch.ones(2), "b": torch.ones(2), "a": torch.ones(2)}
    y = apply(parts, torch.ones(2))
    return y, parts

def probe_other_order():
    """state another order"""
    parts = {"a": torch.ones(2), "z": 1, "b": torch.ones(2)}
    y = apply(parts, torch.ones(2))
    return y, parts

def probe_pick():
    """output"""
    a, b = torch.ones(2), torch.zeros(2)
    return pick({"a": a, "b": b}), pick({"b": b, "x": None, "a": a})

def probe_missing():
    """other a key is missing"""
    try:
        return pick({"a": 1})
    except KeyError as e:
        return str(e)

class Falls(dict):
    def __missing__(self, key):
        return torch.full((2,), 7.0)

def probe_falls():
    """other a dict that has everything"""
    return pick(Falls(a=torch.ones(2)))

def probe_user_dict():
    """other no dict at all"""
    import collections
    return pick(collections.ChainMap({"a": torch.ones(2)}, {"b": torch.ones(2)}))
