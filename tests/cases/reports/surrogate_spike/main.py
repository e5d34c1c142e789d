# pytorch/pytorch#118396, pytorch/pytorch#106390: a custom autograd function with attributes on ctx
import torch
from torch import nn


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, membrane, slope, counts):
        ctx.save_for_backward(membrane)
        ctx.slope = slope
        ctx.set_materialize_grads(False)
        counts["calls"] = counts.get("calls", 0) + 1  # warning: [FL201] "recompiled: 'calls' was not in self.counts, now it is"
        return (membrane > 0).float()

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return None, None, None
        (membrane,) = ctx.saved_tensors
        return grad / (ctx.slope * membrane.abs() + 1.0) ** 2, None, None


class SpikingLayer(nn.Module):
    def __init__(self, dim=8, slope=25.0):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.slope = slope
        self.counts = {}

    def forward(self, x, state):
        state = 0.9 * state + self.linear(x)
        return Spike.apply(state - 1.0, self.slope, self.counts), state


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = SpikingLayer()
    compiled = torch.compile(layer)
    for slope in (5.0, 10.0, 25.0):
        layer.slope = slope
        spikes, state = compiled(torch.randn(4, 8), torch.zeros(4, 8))
        spikes.sum().backward()
    print(layer.linear.weight.grad.sum().item(), layer.counts)
# run by: make corpora
