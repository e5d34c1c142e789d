# truth: maximum of equal arguments splits its gradient in half, in eager mode and compiled
# stage: none
# seen: no difference beyond rounding
import torch


def corner(x, y):
    return torch.maximum(x, y).sum() + x.abs().sum()


def main():
    x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    y = torch.tensor([0.0, 1.0, -2.0], requires_grad=True)
    torch.compile(corner)(x, y).backward()
    return x.grad, y.grad


if __name__ == "__main__":
    print(main())
