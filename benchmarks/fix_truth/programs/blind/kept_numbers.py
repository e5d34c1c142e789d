"""A module keeps numbers of its losses in a list."""
import torch
from torch import nn

# fuselight: Loss()(f32[4], f32[4])
class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []
        self.best = float("inf")

    def forward(self, a, b):
        loss = (a - b).abs().mean()
        value = loss.item()
        self.history.append(value)
        if value < self.best:
            self.best = value
        return loss

    def average(self):
        return sum(self.history) / max(len(self.history), 1)

def probe_history():
    """state of the numbers"""
    m = Loss()
    m(torch.ones(2), torch.zeros(2))
    m(torch.ones(2), torch.ones(2))
    return m.average(), m.best, [type(v).__name__ for v in m.history], type(m.best).__name__

def probe_memory():
    """state keeps no graph"""
    m = Loss()
    m(torch.ones(2, requires_grad=True), torch.zeros(2))
    return [getattr(v, "requires_grad", None) for v in m.history]
