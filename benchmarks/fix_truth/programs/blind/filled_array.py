"""A helper fills an array whose size it computes; other callers give other kinds of sizes."""
import numpy as np
import torch

def band(size, width=2, value=1.0):
    out = np.zeros((size, size), dtype=np.float32)
    for i in range(size):
        out[i, max(0, i - width) : i + width] = value
    return out

# fuselight: banded(f32[5, 5])
@torch.compile
def banded(x):
    return x * torch.from_numpy(band(x.shape[0]))

def probe_banded():
    """output"""
    return banded(torch.ones(3, 3)), banded(torch.ones(1, 1))

def probe_band_values():
    """option values of other types"""
    return [band(2, 1, v).tolist() for v in (3, True, 0.1, np.float64(0.1))]

def probe_band_sizes():
    """option sizes of NumPy and bools"""
    return [band(n).tolist() for n in (np.int64(2), True, 0)]

def probe_band_nan():
    """nonfinite"""
    return str(band(1, 1, float("nan")).tolist())

def probe_band_negative():
    """option a negative size fails"""
    out = []
    for call in (lambda: band(-1), lambda: band(2.0), lambda: band("a"), lambda: band(2, None)):
        try:
            call()
            out.append("works")
        except Exception as e:
            out.append(type(e).__name__)
    return out

def probe_band_tensor():
    """option a size that is a tensor"""
    return band(torch.tensor(2)).tolist()

def probe_band_owner():
    """output each call makes a new array"""
    a = band(2)
    a[:] = 7
    return band(2).tolist(), a.flags.writeable
