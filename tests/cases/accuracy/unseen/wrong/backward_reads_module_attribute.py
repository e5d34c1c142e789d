# truth: a custom backward reads an attribute that is lowered between forward and backward
# stage: capture
# seen: result 1: eager -4.87879, compiled -19.5152
import torch


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, owner):
        ctx.owner = owner
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * -schedule.strength, None  # <-


class Schedule:
    def __init__(self):
        self.strength = 1.0


schedule = Schedule()


def domain_loss(weight, x):
    features = x @ weight
    reversed_features = Reverse.apply(features, None)
    return reversed_features.square().mean()


def main():
    schedule.strength = 1.0
    compiled = torch.compile(domain_loss)
    weight = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
    gradients = []
    for strength in (1.0, 0.25):
        loss = compiled(weight, torch.arange(8.0).reshape(2, 4))
        schedule.strength = strength
        loss.backward()
        gradients.append(weight.grad.clone())
        weight.grad = None
    return gradients


if __name__ == "__main__":
    print(main())
