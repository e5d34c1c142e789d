"""A clock around the computation."""
import time
import torch


TIMES = []


# fuselight: f(f32[4])
@torch.compile
def f(x):
    start = time.time()
    y = x * 2
    TIMES.append(time.time() - start)
    return y


def probe_times():
    """state: one time for each call."""
    TIMES.clear()
    f(torch.ones(2))
    f(torch.ones(3))
    return len(TIMES), all(isinstance(one, float) for one in TIMES)
