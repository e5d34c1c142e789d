"""Dropout on one side."""
import torch
from torch import nn

# fuselight: Noisy().eval()(f32[4])
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        if x.sum() > 0:
            x = self.drop(x)
        return x

def probe_training():
    """mode training"""
    torch.manual_seed(4)
    m = Noisy().train()
    a = m(torch.ones(8))
    return a, torch.rand(1)

def probe_other_side():
    """mode training without a draw"""
    torch.manual_seed(4)
    m = Noisy().train()
    a = m(-torch.ones(8))
    return a, torch.rand(1)
