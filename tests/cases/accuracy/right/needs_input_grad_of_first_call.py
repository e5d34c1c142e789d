# truth: the backward asks needs_input_grad of an argument that is frozen at the second call; compiled code follows
# stage: none
# seen: no difference beyond rounding
import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        scale = 1.0 if ctx.needs_input_grad[1] else 0.5
        return grad * weight * scale, grad * x


def main():
    compiled = torch.compile(lambda a, b: Product.apply(a, b).sum())
    gradients = []
    for trainable in (True, False):
        x = torch.ones(3, requires_grad=True)
        compiled(x, torch.full((3,), 2.0, requires_grad=trainable)).backward()
        gradients.append(x.grad)
    return gradients


if __name__ == "__main__":
    print(main())
