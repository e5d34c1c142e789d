"""The number of a call is remembered before it is counted up."""
import torch
from torch import nn

# fuselight: Steps()(f32[3])
# fuselight: Steps()(f32[3])
# fuselight: Steps()(f32[3])
class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 1

    def forward(self, x):
        before = self.step
        self.step += 1
        return x * before + self.step * 100

def probe_three():
    """output of three calls"""
    net = Steps()
    return [net(torch.ones(2)) for _ in range(3)]

def probe_int8():
    """dtype bytes"""
    net = Steps()
    return [net(torch.ones(2, dtype=torch.int8)) for _ in range(3)]

def probe_scalar():
    """rank no dimensions"""
    net = Steps()
    return [net(torch.tensor(1.0)), net(torch.tensor(1, dtype=torch.int32)), net(torch.tensor(1.0).half())]

def probe_copy():
    """state a deep copy counts alone"""
    import copy
    net = Steps()
    net(torch.ones(1))
    other = copy.deepcopy(net)
    other(torch.ones(1))
    return net(torch.ones(1)), other(torch.ones(1))

def probe_saved():
    """state names of the state, and pickling"""
    import pickle
    net = Steps()
    net(torch.ones(1))
    again = pickle.loads(pickle.dumps(net))
    return list(net.state_dict()), again(torch.ones(1)), net(torch.ones(1))

def probe_inference():
    """mode inference, then training"""
    net = Steps()
    with torch.no_grad():
        net(torch.ones(1))
    x = torch.ones(2, requires_grad=True)
    net(x).sum().backward()
    return x.grad
