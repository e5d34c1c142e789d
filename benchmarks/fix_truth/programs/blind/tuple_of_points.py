"""Points come as a list or as a named tuple, whose fields another caller's code reads."""
import collections
import torch

Box = collections.namedtuple("Box", "low high")

# fuselight: width([f32[3], f32[3]])
# fuselight: width((f32[3], f32[3]))
@torch.compile
def width(box):
    if hasattr(box, "high"):
        return box.high - box.low
    return box[1] - box[0]

# fuselight: total([f32[3], f32[3]])
# fuselight: total((f32[3], f32[3]))
@torch.compile
def total(parts):
    out = 0
    for part in parts:
        out = out + part
    return out * len(parts)

def probe_named():
    """other a named tuple"""
    return width(Box(torch.zeros(2), torch.ones(2)))

def probe_list():
    """output lists and tuples"""
    return width([torch.zeros(2), torch.ones(2)]), width((torch.zeros(2), torch.ones(2)))

def probe_total_list():
    """output"""
    return total([torch.ones(2)] * 3), total((torch.ones(2),) * 3)

def probe_total_tensor():
    """other a tensor has rows"""
    return total(torch.ones(3, 2))

def probe_total_dict():
    """other a dict has keys"""
    return total({1: 2, 3: 4})

def probe_total_set():
    """other a set and a range"""
    return total({1, 2}), total(range(4))

def probe_total_none():
    """other None"""
    try:
        return total(None)
    except Exception as e:
        return type(e).__name__

def probe_empty():
    """empty"""
    return total([]), total(())

class Reversed(list):
    def __iter__(self):
        return iter(list.__reversed__(self))

    def __len__(self):
        return 100

def probe_subclass():
    """other a subclass of list"""
    return total(Reversed([torch.ones(1), torch.zeros(1)]))
