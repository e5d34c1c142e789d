"""Training, gradients and a flag of the caller decide; a module is frozen between calls."""
import torch
from torch import nn

# fuselight: Flags()(f32[2, 3], train=True)
# fuselight: Flags()(f32[2, 3])
class Flags(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        nn.init.eye_(self.lin.weight)
        nn.init.zeros_(self.lin.bias)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.seen += 1
        if torch.is_grad_enabled() and x.requires_grad:
            x = x * 2
        y = self.lin(x)
        if self.training and self.seen.item() > 2:
            y = y * 0.5
        if not torch.isfinite(y).all():
            print("not finite")
            y = torch.zeros_like(y)
        return y

def probe_train():
    """state of calls in training"""
    net = Flags()
    return [net(torch.ones(1, 3)) for _ in range(4)], net.seen

def probe_eval():
    """mode evaluation"""
    net = Flags().eval()
    net.seen += 5
    return net(torch.ones(1, 3)), net.seen

def probe_grad():
    """gradients"""
    x = torch.ones(1, 3, requires_grad=True)
    net = Flags()
    net.seen += 5
    net(x).sum().backward()
    return x.grad, net.lin.weight.grad

def probe_bad():
    """nonfinite are zeros"""
    x = torch.tensor([[float("nan"), 1.0, 1.0]], requires_grad=True)
    net = Flags()
    y = net(x)
    if y.requires_grad:
        y.sum().backward()
    return y, x.grad, net.lin.weight.grad

def probe_loaded():
    """state names"""
    net = Flags()
    net(torch.ones(1, 3))
    return {name: value.dtype for name, value in net.state_dict().items()}
