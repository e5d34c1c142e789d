"""Global numbers change from call to call."""
import torch

RATE = 1.0
CALLS = 0
LOG = []

# fuselight: warm(f32[3])
# fuselight: warm(f32[3])
# fuselight: warm(f32[3])
def warm(x):
    global RATE, CALLS
    CALLS += 1
    RATE = RATE * 0.5
    LOG.append(RATE)
    return core(x)

@torch.compile
def core(x):
    return x * RATE + CALLS

def report():
    return f"{CALLS} {RATE:.3f} {max(CALLS, 3)} {LOG[-1]}", [0] * CALLS, type(CALLS).__name__

def probe_three():
    """state"""
    out = [warm(torch.ones(2)) for _ in range(3)]
    return out, report(), list(LOG)

def probe_set():
    """other another caller sets them"""
    global RATE, CALLS
    RATE, CALLS = 3, 2
    return core(torch.ones(2)), core(torch.ones(2, dtype=torch.int64)), core(torch.tensor(1, dtype=torch.int8))

def probe_scalar():
    """rank none"""
    return warm(torch.tensor(1.0)), warm(torch.tensor(1.0).half())

def probe_half():
    """dtype half"""
    return warm(torch.ones(2).half()), warm(torch.ones(2).bfloat16())
