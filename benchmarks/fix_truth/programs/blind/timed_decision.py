"""A measured time decides, is kept, and is shown; a date names a file."""
import datetime
import time
import torch
from torch import nn

# fuselight: Timed()(f32[3])
class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = 0.0
        self.slow = 0

    def forward(self, x):
        start = time.perf_counter()
        y = x * 2
        took = time.perf_counter() - start
        self.last = took
        if took > 100:
            self.slow += 1
        print("took", took < 100)
        return y

# fuselight: stamped(f32[3])
@torch.compile
def stamped(x):
    now = datetime.datetime.now()
    y = x + 1
    print("year", now.year > 2000)
    return y

# fuselight: slept(f32[3])
@torch.compile
def slept(x):
    t0 = time.monotonic()
    if x.shape[0] > 5:
        return x
    y = x * 3
    print(time.monotonic() >= t0)
    return y

def probe_timed():
    """state of the module"""
    net = Timed()
    y = net(torch.ones(2))
    return y, net.last > 0, net.slow, type(net.last).__name__

def probe_stamped():
    """output"""
    return stamped(torch.ones(2))

def probe_slept():
    """size returns early"""
    return slept(torch.ones(2)), slept(torch.ones(6))

def probe_slept_error():
    """other fails"""
    try:
        return slept(None)
    except AttributeError:
        return "fails"
