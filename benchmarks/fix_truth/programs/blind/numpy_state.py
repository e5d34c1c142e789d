"""Statistics are kept in arrays of NumPy that share memory with a tensor."""
import numpy as np
import torch
from torch import nn

# fuselight: Stats()(f32[3])
class Stats(nn.Module):
    def __init__(self):
        super().__init__()
        self.sums = np.zeros(3)
        self.count = 0

    def forward(self, x):
        self.sums += x.detach().numpy()
        self.count = self.count + 1
        return x - torch.from_numpy(self.sums / self.count).to(x.dtype)

# fuselight: shared(f32[3])
@torch.compile
def shared(x):
    array = x.numpy()
    array[0] = 7
    return torch.from_numpy(array), np.sqrt(x.shape[0]) * x

def probe_stats():
    """state"""
    net = Stats()
    out = [net(torch.ones(3)), net(torch.zeros(3)), net(torch.ones(3))]
    return out, net.sums.tolist(), net.count

def probe_stats_dtype():
    """dtype others"""
    return Stats()(torch.ones(3).double()), Stats()(torch.ones(3).half()), Stats()(torch.ones(3, dtype=torch.int64))

def probe_shared():
    """state of the argument"""
    x = torch.ones(3)
    y, z = shared(x)
    return x, y, z

def probe_shared_int():
    """dtype integers"""
    x = torch.ones(3, dtype=torch.int32)
    return shared(x), x

def probe_shared_grad():
    """gradients fail"""
    try:
        return shared(torch.ones(3, requires_grad=True))
    except RuntimeError:
        return "fails"
