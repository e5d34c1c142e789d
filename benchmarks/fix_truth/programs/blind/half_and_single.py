"""Two dtypes come; the result has the dtype that came."""
import torch

# fuselight: scale(f32[4])
# fuselight: scale(f16[4])
@torch.compile
def scale(x):
    return x * 3, x.dtype == torch.float16

def probe_flag():
    """output of the dtype test"""
    return scale(torch.ones(2, dtype=torch.float16)), scale(torch.ones(2))

def probe_double():
    """dtype float64"""
    return scale(torch.full((2,), 1 / 3, dtype=torch.float64))

def probe_integer():
    """dtype int64 beyond float32"""
    return scale(torch.tensor([2**40 + 1]))

def probe_overflow():
    """extreme float16"""
    return scale(torch.tensor([40000.0], dtype=torch.float16))
