"""One of two parameters is chosen, kept on the module, and asked for by its type elsewhere."""
import torch
from torch import nn

# fuselight: Mixer()(f32[2, 4])
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.light = nn.Parameter(torch.full((4,), 0.5))
        self.heavy = nn.Parameter(torch.full((4,), 2.0))

    def pick(self, x):
        return self.heavy if x.sum() > 0 else self.light

    def forward(self, x):
        weight = self.heavy if x.sum() > 0 else self.light
        self.chosen = weight
        return x * weight

def _inputs():
    return torch.tensor([[1.0, 2.0, -0.5, 3.0]])

def probe_values():
    """output of both sides"""
    net = Mixer()
    return [net(_inputs()), net(-_inputs())]

def probe_type():
    """state what is kept is a parameter"""
    net = Mixer()
    net(_inputs())
    return type(net.chosen).__name__

def probe_registered():
    """state what is kept is registered"""
    net = Mixer()
    net(_inputs())
    return [name for name, _ in net.named_parameters(remove_duplicate=False)]

def probe_saved():
    """state what is saved"""
    net = Mixer()
    net(-_inputs())
    return list(net.state_dict())

def probe_changed():
    """state the kept parameter is changed in place"""
    net = Mixer()
    net(_inputs())
    with torch.no_grad():
        net.chosen.fill_(7.0)
    return [net.heavy, net.light]

def probe_second():
    """state the other side in the next call"""
    net = Mixer()
    net(_inputs())
    net(-_inputs())
    return net.chosen

def probe_gradients():
    """gradients of what is not chosen"""
    net = Mixer()
    net(_inputs()).sum().backward()
    return [net.heavy.grad, net.light.grad is None]
