"""An integer varies that is a size, a divisor, a flag and a number."""
import torch

# fuselight: windows(f32[12], 1)
# fuselight: windows(f32[12], 2)
# fuselight: windows(f32[12], 3)
# fuselight: windows(f32[12], 4)
@torch.compile
def windows(x, k):
    y = x.view(k, -1)
    return y.mean(0) * (k > 1) + (x.sum() if k else 0) / max(k, 1), [k] * 2

# fuselight: step(f32[3], 1)
# fuselight: step(f32[3], 2)
# fuselight: step(f32[3], 3)
@torch.compile
def step(x, epoch: int):
    return x * epoch + epoch

def probe_windows():
    """option"""
    return [windows(torch.arange(12.0), k) for k in (1, 2, 6, 12, 3)]

def probe_windows_wrong():
    """option does not divide"""
    out = []
    for k in (5, 0, -1):
        try:
            out.append(windows(torch.arange(12.0), k))
        except Exception:
            out.append("fails")
    return out

def probe_windows_bool():
    """option a bool"""
    return windows(torch.arange(12.0), True)

def probe_step():
    """option"""
    return [step(torch.ones(2), n) for n in (0, 1, -5, 2**31, 2**40)]

def probe_step_int():
    """dtype small integers"""
    return [step(torch.tensor([3], dtype=d), 100) for d in (torch.int8, torch.uint8, torch.int64, torch.bool)]

def probe_step_scalar():
    """dtype no dimensions"""
    return [step(torch.tensor(3, dtype=d), 100) for d in (torch.int8, torch.float16, torch.bool)]

def probe_step_float():
    """option a float, a bool, an integer of NumPy"""
    import numpy
    return step(torch.ones(2, dtype=torch.int64), 0.5), step(torch.ones(2), True), step(torch.ones(2), numpy.int64(3))

def probe_step_large():
    """extreme beyond 64 bits"""
    try:
        return step(torch.ones(2), 2**70)
    except Exception:
        return "fails"
