# truth: a saved value is changed through .data, and the backward reads the change, in eager mode and compiled
# stage: none
# seen: no difference beyond rounding
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2.0 * x


def loss(x):
    hidden = x * 1.0
    squared = Square.apply(hidden)
    hidden.data.mul_(10.0)
    return squared.sum()


def main():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    value = torch.compile(loss)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
