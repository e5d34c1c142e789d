"""A helper draws a mask of spans; a short sequence has another shape, and a length of zero ends early."""
import numpy as np
import torch

def span_mask(rows, length, width):
    if length < width:
        return np.ones((rows, 1), dtype=np.float32)
    mask = np.zeros((rows, length), dtype=np.float32)
    for row in range(rows):
        start = np.random.randint(0, length - width + 1)
        mask[row, start : start + width] = 1
    return mask

# fuselight: masked_mean(f32[2, 8], width=3)
@torch.compile
def masked_mean(x, width):
    mask = torch.from_numpy(span_mask(x.shape[0], x.shape[1], width))
    return (x * mask).sum(-1) / width

def _of(rows, length, width, **how):
    np.random.seed(5)
    return masked_mean(torch.arange(float(rows * length)).reshape(rows, length).to(**how), width)

def probe_usual():
    """output"""
    return _of(2, 6, 2, dtype=torch.float32)

def probe_short():
    """size a sequence that is shorter than the span"""
    return _of(3, 2, 5, dtype=torch.float32)

def probe_exact():
    """size a span as long as the sequence"""
    return _of(1, 4, 4, dtype=torch.float32)

def probe_calls():
    """state random numbers of two calls"""
    return [_of(2, 9, 2, dtype=torch.float32), masked_mean(torch.ones(2, 5) * torch.arange(5.0), 1)]

def probe_generator():
    """state the generator after a call"""
    _of(2, 9, 3, dtype=torch.float32)
    return float(np.random.rand())

def probe_double():
    """dtype double"""
    return _of(2, 5, 2, dtype=torch.float64)

def probe_helper():
    """other the helper gives an array"""
    return [type(span_mask(1, 3, 1)).__name__, span_mask(1, 3, 1).flags.writeable, span_mask(2, 1, 3).shape]

def probe_helper_kept():
    """state an array of the helper is the caller's"""
    first = span_mask(1, 3, 3)
    first[0, 0] = 9
    return float(span_mask(1, 3, 3)[0, 0])

def probe_no_rows():
    """empty no rows"""
    return _of(0, 4, 2, dtype=torch.float32)

def probe_zero_width():
    """other a width of zero divides by zero"""
    return _of(1, 4, 0, dtype=torch.float32)
