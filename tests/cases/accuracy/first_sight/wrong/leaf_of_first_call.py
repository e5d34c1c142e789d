# truth: whether an argument is a leaf is read when it is traced, and not guarded: the second argument is none
# stage: capture
# seen: result 1: eager 0.72, compiled 2.16
import torch


def penalty(weight):
    strength = 0.1
    if weight.is_leaf:  # <-
        strength = 0.3
    return (weight.abs() * strength).sum()


def main():
    compiled = torch.compile(penalty)
    weight = torch.linspace(-1, 1, 6, requires_grad=True)
    first = compiled(weight)
    second = compiled(weight * 2.0)
    return first.detach(), second.detach()


if __name__ == "__main__":
    print(main())
