"""Skips a layer with a probability, by torch's generator."""
import torch
from torch import nn

# fuselight: Deep()(f32[2, 4])
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            if self.training and torch.rand([]) < 0.5:
                continue
            x = layer(x)
        return x

def probe_eval():
    """mode evaluation draws nothing"""
    m = Deep().eval()
    torch.manual_seed(3)
    y = m(torch.ones(1, 4))
    return y, torch.rand(1)

def probe_grads():
    """gradients of skipped layers in eager mode"""
    m = Deep().train()
    torch.manual_seed(3)
    m(torch.ones(1, 4, requires_grad=True)).sum().backward()
    return [p.grad is None for p in m.parameters()]
