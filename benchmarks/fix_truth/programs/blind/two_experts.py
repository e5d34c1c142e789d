"""One of two experts handles the batch; the other must not train."""
import torch
from torch import nn

# fuselight: TwoExperts()(f32[4, 6])
class TwoExperts(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.hot = nn.Linear(6, 6)
        self.cold = nn.Linear(6, 6)

    def forward(self, x):
        if x.mean() > 0:
            y = self.hot(x)
        else:
            y = self.cold(x)
        return y

def probe_unused_grad():
    """gradients of the expert that was not used"""
    m = TwoExperts()
    m(torch.ones(2, 6)).sum().backward()
    return [p.grad for p in m.parameters()]

def probe_decay():
    """gradients of zero move weights with weight decay"""
    m = TwoExperts()
    opt = torch.optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.5)
    m(torch.ones(2, 6)).sum().backward()
    opt.step()
    return [p.detach() for p in m.parameters()]

def probe_hooks():
    """hooks of the unused expert"""
    m, seen = TwoExperts(), []
    m.hot.register_forward_hook(lambda *a: seen.append("hot"))
    m.cold.register_forward_hook(lambda *a: seen.append("cold"))
    m(torch.ones(2, 6))
    return seen
