# truth: an autograd function keeps its activation on its class: as in eager mode, which uses that of the second use twice
# stage: none
# seen: no difference beyond rounding
import torch


class Squared(torch.autograd.Function):
    last = None

    @staticmethod
    def forward(ctx, x):
        Squared.last = x
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * Squared.last


def energy(a, b):
    return (Squared.apply(a) + Squared.apply(b)).sum()


def main():
    a = torch.arange(1.0, 4.0, requires_grad=True)
    b = torch.full((3,), 10.0, requires_grad=True)
    torch.compile(energy)(a, b).backward()
    return a.grad, b.grad


if __name__ == "__main__":
    print(main())
