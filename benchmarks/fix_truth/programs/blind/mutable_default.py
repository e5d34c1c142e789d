"""A timed function has a mutable default, a global of its name and calls itself."""
import time
import torch

# fuselight: walk(f32[3], 2)
@torch.compile
def walk(x, depth=1, seen=[]):
    """Walk down."""
    start = time.time()
    seen.append(depth)
    y = x * 2
    if depth > 0:
        y = walk(y, depth - 1)
    print("level", depth, time.time() > start - 1)
    return y

def probe_depth():
    """state of the default"""
    y = walk(torch.ones(1), 2)
    return y, list(walk.__defaults__[-1] if hasattr(walk, "__defaults__") and walk.__defaults__ else [])

def probe_own_list():
    """state of a caller's list"""
    seen = []
    y = walk(torch.ones(1), 1, seen)
    return y, seen

def probe_name():
    """other the name and the docstring"""
    return walk.__name__, walk.__doc__

def probe_keyword():
    """option keywords"""
    seen = [0]
    return walk(depth=0, x=torch.ones(2), seen=seen), seen
