# truth: the result is a view of the argument, and a later change is seen in both
# stage: none
# seen: no difference beyond rounding
import torch


def halves(x):
    return x.view(2, -1), x[1:].sum()


def main():
    x = torch.arange(6.0)
    view, total = torch.compile(halves)(x)
    view.add_(1.0)
    return x, view, total


if __name__ == "__main__":
    print(main())
