# truth: two formulas for one value are compared; which of them is larger is a matter of the last bit
# stage: none
# seen: no difference beyond rounding
import torch


def above(x, y):
    left = (x + y) * (x - y)
    right = x * x - y * y
    return left > right


def main():
    x = torch.linspace(1, 2, 64)
    return torch.compile(above)(x, x.flip(0) * 0.999)


if __name__ == "__main__":
    print(main())
