"""What is logged makes an entry of a defaultdict, which the next line counts."""
import collections
import logging
import torch
from torch import nn

log = logging.getLogger("table")

# fuselight: Table()(f32[3], "a")
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = collections.defaultdict(int)

    def forward(self, x, name):
        log.info("seen %s", self.seen[name])
        return x + len(self.seen)

def probe_names():
    """state entries are made"""
    net = Table()
    return [net(torch.zeros(2), "a"), net(torch.zeros(2), "b"), net(torch.zeros(2), "a"), dict(net.seen)]

def probe_number():
    """other a number as a key"""
    net = Table()
    return net(torch.zeros(1), 3), list(net.seen)

def probe_integers():
    """dtype integers"""
    return Table()(torch.zeros(2, dtype=torch.int32), "x")
