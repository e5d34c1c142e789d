"""The dtype varies; the results are a float, an index, a mask and a constant."""
import torch

# fuselight: summary(f32[4])
# fuselight: summary(f16[4])
# fuselight: summary(f64[4])
@torch.compile
def summary(x):
    return x * 2, x.argmax(), x > 0, torch.zeros(2), x.float()

# fuselight: clear(f32[4])
# fuselight: clear(f16[4])
# fuselight: clear(bf16[4])
@torch.compile
def clear(x):
    x.mul_(0.5)
    return x + 1

def _kinds(values):
    return [value.dtype for value in summary(values)]

def probe_single():
    """output dtypes"""
    return _kinds(torch.ones(2))

def probe_half():
    """output dtypes"""
    return _kinds(torch.ones(2).half()), _kinds(torch.ones(2).bfloat16())

def probe_double():
    """output dtypes"""
    return _kinds(torch.ones(2).double())

def probe_integers():
    """output dtypes"""
    return _kinds(torch.tensor([1, 2])), _kinds(torch.tensor([1, 2], dtype=torch.int8))

def probe_large_integers():
    """values of integers"""
    return summary(torch.tensor([2**53 + 1, 2**53]))[1]

def probe_clear():
    """state of the argument"""
    out = []
    for dtype in (torch.float32, torch.float16, torch.float64):
        x = torch.tensor([1.0, 3.0], dtype=dtype)
        clear(x)
        out.append(x)
    return out
