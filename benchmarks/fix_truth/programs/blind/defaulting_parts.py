"""Parts come by name in any order; callers may use a dict that makes what is missing."""
from collections import OrderedDict, defaultdict

import torch

# fuselight: combined({"weight": f32[3], "bias": f32[3]})
# fuselight: combined({"bias": f32[3], "weight": f32[3]})
@torch.compile
def combined(parts):
    return parts["weight"] * 2 + parts["bias"]

class Zeros(dict):
    def __missing__(self, key):
        return torch.zeros(2)

class Doubled(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 2

def probe_dict():
    """output of a dict"""
    return combined({"bias": torch.ones(2), "weight": torch.arange(2.0)})

def probe_default():
    """state what is missing is made, and stays in the caller's dict"""
    parts = defaultdict(lambda: torch.zeros(2), weight=torch.ones(2))
    return [combined(parts), sorted(parts)]

def probe_missing():
    """other a class makes what is missing"""
    return combined(Zeros(weight=torch.ones(2)))

def probe_own_getitem():
    """other a class with its own way to read"""
    return combined(Doubled(weight=torch.ones(2), bias=torch.ones(2)))

def probe_ordered():
    """other an OrderedDict"""
    parts = OrderedDict(weight=torch.ones(2), bias=torch.ones(2))
    return [combined(parts), list(parts)]

def probe_parameters():
    """gradients a ParameterDict, which is no dict"""
    parts = torch.nn.ParameterDict({"weight": torch.ones(2), "bias": torch.zeros(2)})
    combined(parts).sum().backward()
    return [parts["weight"].grad, parts["bias"].grad]

def probe_mixed_keys():
    """other keys of several types"""
    return combined({1: None, "weight": torch.ones(2), None: 3, "bias": torch.ones(2)})

class Unreadable:
    def __str__(self):
        raise RuntimeError("no text")

def probe_key_without_text():
    """other a key that cannot be text"""
    return combined({Unreadable(): 1, "weight": torch.ones(2), "bias": torch.ones(2)})

def probe_absent():
    """other a missing key raises"""
    try:
        return combined({"weight": torch.ones(2)})
    except KeyError as error:
        return str(error)
