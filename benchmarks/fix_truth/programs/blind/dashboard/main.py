"""A counter of a module that another file reads."""
import torch
from torch import nn

# fuselight: Tracker()(f32[3])
# fuselight: Tracker()(f32[3])
# fuselight: Tracker()(f32[3])
class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.updates = 0

    def forward(self, x):
        self.updates += 1
        return x / self.updates


def probe_dashboard():
    """state read by another file"""
    from board import line

    m = Tracker()
    m(torch.ones(2))
    m(torch.ones(2))
    return line(m)


def probe_restore():
    """state written by another file"""
    from board import restore

    m = Tracker()
    restore(m, {"updates": 7})
    return m(torch.ones(2)), m.updates
