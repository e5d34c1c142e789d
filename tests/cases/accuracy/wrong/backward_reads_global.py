# truth: the backward of a custom function reads a global that changes between forward and backward: gradients only
# stage: capture
# seen: result 1: eager 0.2, compiled 2
import torch

penalty = {"weight": 1.0}


class Penalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0 * penalty["weight"]  # <-


def main():
    penalty["weight"] = 1.0
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    value = torch.compile(lambda v: Penalized.apply(v).sum())(x)
    penalty["weight"] = 0.1
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
