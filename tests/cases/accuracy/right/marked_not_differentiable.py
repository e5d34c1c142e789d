# truth: an output is marked as not differentiable; compiled code keeps the mark
# stage: none
# seen: no difference beyond rounding
import torch


class WithMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mask = (x > 0).to(x.dtype)
        ctx.mark_non_differentiable(mask)
        return x * mask, mask

    @staticmethod
    def backward(ctx, grad, grad_of_mask):
        return grad + (0.0 if grad_of_mask is None else grad_of_mask.abs() + 1.0)


def loss(x):
    kept, mask = WithMask.apply(x)
    return (kept * mask.exp()).sum(), mask


def main():
    x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    value, mask = torch.compile(loss)(x)
    value.backward()
    return value.detach(), mask.requires_grad, x.grad


if __name__ == "__main__":
    print(main())
