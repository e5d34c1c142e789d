"""A side with batch statistics."""
import torch
from torch import nn

# fuselight: Gate().eval()(f32[4, 3])
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        if x.mean() > 0:
            return self.bn(x)
        return self.drop(x) * 2

def probe_training():
    """mode training updates statistics only on its side"""
    m = Gate().train()
    m(torch.arange(12.0).reshape(4, 3))
    return m.bn.running_mean, m.bn.num_batches_tracked

def probe_other_side():
    """mode training without statistics"""
    torch.manual_seed(3)
    m = Gate().train()
    m(-torch.arange(1, 13.0).reshape(4, 3))
    return m.bn.running_mean, m.bn.num_batches_tracked

def probe_batch_of_one():
    """size one raises in training"""
    m = Gate().train()
    try:
        return m(torch.ones(1, 3))
    except Exception as e:
        return type(e).__name__
