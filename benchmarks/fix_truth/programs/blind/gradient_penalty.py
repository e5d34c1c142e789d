"""A penalty on gradients, computed inside, and learned through; hooks and flags of the weights."""
import torch
from torch import nn

# fuselight: Critic()(f32[4, 3], train=True)
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 1)
        for part in (self.a, self.b):
            nn.init.constant_(part.weight, 0.5)
            nn.init.zeros_(part.bias)

    def forward(self, x):
        x = x.detach().requires_grad_(True)
        y = self.b(torch.tanh(self.a(x)))
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (g.norm(dim=1) - 1).pow(2).mean()

def probe_loss():
    """output"""
    return Critic()(torch.ones(2, 3))

def probe_weights():
    """gradients of the weights"""
    net = Critic()
    net(torch.ones(2, 3)).backward()
    return [p.grad for p in net.parameters()]

def probe_hooks():
    """hooks of the modules and weights"""
    net, seen = Critic(), []
    net.a.register_full_backward_hook(lambda *_: seen.append("module"))
    net.a.weight.register_hook(lambda g: seen.append("weight"))
    net(torch.ones(2, 3)).backward()
    return sorted(seen)

def probe_no_grad():
    """mode no gradients fails"""
    with torch.no_grad():
        try:
            return Critic()(torch.ones(2, 3))
        except RuntimeError:
            return "fails"

def probe_frozen():
    """gradients with a frozen layer"""
    net = Critic()
    net.a.requires_grad_(False)
    net(torch.ones(2, 3)).backward()
    return net.a.weight.grad, net.b.weight.grad

def probe_input():
    """gradients of the input"""
    x = torch.ones(2, 3, requires_grad=True)
    Critic()(x).backward()
    return x.grad
