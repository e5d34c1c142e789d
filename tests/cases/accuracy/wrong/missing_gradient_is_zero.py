# truth: set_materialize_grads(False): eager passes None for an unused output, compiled code zeros
# stage: capture
# seen: result 2: eager 100, compiled 2
import torch


class TwoResults(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2.0, x * 3.0

    @staticmethod
    def backward(ctx, first, second):
        if second is None:  # <-
            return first * 100.0
        return first * 2.0 + second * 3.0


def main():
    x = torch.ones(3, requires_grad=True)
    first, second = torch.compile(TwoResults.apply)(x)
    first.sum().backward()
    return first.detach(), second.detach(), x.grad


if __name__ == "__main__":
    print(main())
