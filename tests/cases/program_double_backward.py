"""An exception that only compiled code raises, in the backward pass: TorchDynamo alone does not see it."""

import torch


@torch.compile
def energy(x):
    return (x * x * x).sum()


def second_derivative(x):
    (first,) = torch.autograd.grad(energy(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    # error: [FL401] "Only compiled code raises this"
    return second


if __name__ == "__main__":
    second_derivative(torch.ones(3, requires_grad=True))
