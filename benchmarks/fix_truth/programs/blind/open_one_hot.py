"""The number of classes comes from the values, and wrong values raise."""
import torch
import torch.nn.functional as F

# fuselight: encoded(i64[5] % 4)
@torch.compile
def encoded(labels):
    return F.one_hot(labels).sum(0)

def _try(labels):
    try:
        return encoded(labels)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return "refused"

def probe_counts():
    """output of counts"""
    return encoded(torch.tensor([0, 2, 2, 1]))

def probe_more_classes():
    """size more classes than in other calls"""
    return [encoded(torch.tensor([0, 1])), encoded(torch.tensor([0, 9]))]

def probe_one_class():
    """size one class"""
    return encoded(torch.zeros(3, dtype=torch.int64))

def probe_single():
    """size one label"""
    return encoded(torch.tensor([3]))

def probe_scalar():
    """size no dimension"""
    return encoded(torch.tensor(3))

def probe_two_dimensions():
    """size two dimensions"""
    return encoded(torch.tensor([[0, 2], [1, 1]]))

def probe_negative():
    """extreme negative labels are refused"""
    return _try(torch.tensor([0, -1, 2]))

def probe_empty():
    """empty no classes can be known"""
    return _try(torch.zeros(0, dtype=torch.int64))

def probe_int32():
    """dtype int32 is refused"""
    return _try(torch.tensor([0, 1], dtype=torch.int32))
