"""All numbers of a module are collected for a report, by its dictionary."""
import torch
from torch import nn

# fuselight: Counted()(f32[2, 3])
# fuselight: Counted()(f32[2, 3])
# fuselight: Counted()(f32[2, 3])
class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        return x + self.passes

def numbers(net):
    return {key: value for key, value in net.__dict__.items() if isinstance(value, int) and key != "training"}

def probe_numbers():
    """state the report has the number"""
    net = Counted()
    net(torch.ones(1, 1))
    net(torch.ones(1, 1))
    return numbers(net)

def probe_calls():
    """state"""
    net = Counted()
    return [net(torch.ones(1, 2)), net(torch.ones(1, 2).half()), net(torch.ones(1, 2, dtype=torch.int8))]

def probe_scalar():
    """rank none"""
    net = Counted()
    return net(torch.tensor(1, dtype=torch.int8)), net(torch.tensor(1.0).half()), net(torch.tensor(True))
