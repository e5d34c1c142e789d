"""A length slices: zero, negative and longer than the tensor."""
import torch

# fuselight: head(f32[6], i64[] % 5)
@torch.compile
def head(x, length):
    n = int(length)
    return x[:n].sum(), x[n:], x[-n:]

def probe_usual():
    """output"""
    return head(torch.arange(6.0), torch.tensor(2))

def probe_zero():
    """values zero"""
    return head(torch.arange(6.0), torch.tensor(0))

def probe_all():
    """values the whole and more"""
    return head(torch.arange(6.0), torch.tensor(6)), head(torch.arange(6.0), torch.tensor(9))

def probe_negative():
    """values negative"""
    return head(torch.arange(6.0), torch.tensor(-2)), head(torch.arange(6.0), torch.tensor(-9))

def probe_one():
    """values one"""
    return head(torch.arange(6.0), torch.tensor(1))

def probe_bool():
    """dtype bool"""
    return head(torch.arange(6.0), torch.tensor(True))

def probe_float():
    """dtype float is cut"""
    return head(torch.arange(6.0), torch.tensor(2.9)), head(torch.arange(6.0), torch.tensor(-0.9))

def probe_shared():
    """output of the slices"""
    x = torch.arange(6.0)
    head(x, torch.tensor(2))[1].add_(10)
    return x

def probe_empty():
    """empty"""
    return head(torch.zeros(0), torch.tensor(2))
