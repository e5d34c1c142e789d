# truth: func.grad in compiled code ignores the backward of a custom function: the gradient is 0 outside of the clip
# stage: capture
# seen: result 0: eager 1.5, compiled 0
import torch


class PassThroughClip(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.clamp(-1.0, 1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


def slope(x):
    return torch.func.grad(lambda v: (PassThroughClip.apply(v) * v.new_tensor([1.0, 2.0, 3.0])).sum())(x)  # <-


def main():
    x = torch.tensor([0.5, 4.0, -3.0])
    return torch.compile(slope)(x)


if __name__ == "__main__":
    print(main())
