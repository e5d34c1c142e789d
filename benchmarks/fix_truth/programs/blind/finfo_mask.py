"""Masked scores get the smallest number of their type, in two precisions."""
import torch

# fuselight: masked(f32[2, 4], bool[2, 4])
# fuselight: masked(f16[2, 4], bool[2, 4])
# fuselight: masked(f32[2, 4], bool[2, 4])
@torch.compile
def masked(scores, keep):
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~keep, lowest)

def _kept(dtype):
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=dtype)
    return masked(scores, torch.tensor([[True, False, True, False]]))

def _nothing(dtype):
    out = masked(torch.ones(1, 3, dtype=dtype), torch.zeros(1, 3, dtype=torch.bool))
    return torch.softmax(out.double(), -1)

def probe_single():
    """output single precision"""
    return _kept(torch.float32)

def probe_half():
    """other half precision"""
    return _kept(torch.float16)

def probe_bfloat():
    """dtype bfloat16"""
    return _kept(torch.bfloat16)

def probe_double():
    """dtype double"""
    return _kept(torch.float64)

def probe_all_masked():
    """output nothing is kept"""
    return _nothing(torch.float32)

def probe_half_all_masked():
    """other nothing is kept: the shares are equal, not NaN"""
    return _nothing(torch.float16)

def probe_integers():
    """dtype integers have no smallest float"""
    try:
        return masked(torch.ones(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.bool))
    except TypeError:
        return "TypeError"
