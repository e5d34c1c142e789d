"""A hook defines an autograd.Function class each time that it runs."""
import torch
from torch import nn


def pre_backward(module, x):
    class Mark(torch.autograd.Function):  # warning: [GB8977] "graph break: a class is defined in the compiled region"
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Mark.apply(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return pre_backward(self, self.linear(x)).relu()


model = torch.compile(nn.Sequential(Layer(), nn.Linear(6, 2)))
model(torch.randn(3, 6)).sum().backward()
# run by: make corpora
