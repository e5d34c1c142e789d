"""The function appends to the caller's list."""
import torch

# fuselight: record([f32[2], f32[2]], f32[2])
# fuselight: record([f32[2], f32[2], f32[2]], f32[2])
@torch.compile
def record(history, x):
    total = sum(history) + x
    history.append(total)
    return total

def probe_caller_list():
    """state of the caller's list"""
    h = [torch.ones(2)]
    record(h, torch.ones(2))
    record(h, torch.ones(2))
    return h

def probe_tuple_raises():
    """output type of exceptions"""
    try:
        return record((torch.ones(2),), torch.ones(2))
    except Exception as e:
        return type(e).__name__

def probe_empty_list():
    """empty list"""
    h = []
    return record(h, torch.ones(2)), h
