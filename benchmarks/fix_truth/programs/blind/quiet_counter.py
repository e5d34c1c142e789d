"""What is logged counts when it is shown."""
import logging
import torch
from torch import nn

log = logging.getLogger("quiet")

class Shown:
    def __init__(self):
        self.times = 0

    def __str__(self):
        self.times += 1
        return f"shown {self.times}"

# fuselight: Layer()(f32[3])
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.shown = Shown()

    def forward(self, x):
        log.warning("state %s", self.shown)
        return x * (1 + self.shown.times)

def probe_twice():
    """state two calls count"""
    net = Layer()
    return [net(torch.ones(2)), net(torch.ones(2)), net.shown.times]

def probe_disabled():
    """state nothing is formatted where the level is off"""
    logging.disable(logging.CRITICAL)
    try:
        net = Layer()
        return [net(torch.ones(2)), net.shown.times]
    finally:
        logging.disable(logging.NOTSET)

def probe_half():
    """dtype half"""
    return Layer()(torch.ones(2, dtype=torch.float16))
