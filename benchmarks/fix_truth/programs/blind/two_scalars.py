"""Numbers of two tensors of different types are compared exactly by Python."""
import torch

# fuselight: scaled(f32[4], i64[4])
@torch.compile
def scaled(x, counts):
    if counts.max().item() > x.max().item():
        x = x * 2
    return x - 1

def _of(x, counts, dtype=torch.float32, kind=torch.int64):
    return scaled(torch.tensor(x, dtype=dtype), torch.tensor(counts, dtype=kind))

def probe_usual():
    """output both sides"""
    return [_of([1.0, 2.0], [5]), _of([9.0], [5, 1])]

def probe_beyond_single():
    """extreme an integer that single precision rounds down to the number"""
    return _of([16777216.0], [16777217])

def probe_beyond_double():
    """extreme an integer that double precision rounds down to the number"""
    return _of([float(2**53)], [2**53 + 1], dtype=torch.float64)

def probe_half():
    """half an integer that half precision cannot hold"""
    return [_of([2048.0], [2049], dtype=torch.float16), _of([60000.0], [70000], dtype=torch.float16)]

def probe_bytes():
    """dtype bytes"""
    return _of([-1.0], [0], kind=torch.uint8)

def probe_nan():
    """nonfinite NaN is not less"""
    return _of([float("nan")], [5])

def probe_infinite():
    """nonfinite infinity"""
    return [_of([float("inf")], [5]), _of([float("-inf")], [5])]

def probe_moderate():
    """output a count of twenty million beside an equal number"""
    return _of([20000000.0], [20000001])
