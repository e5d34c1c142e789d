# truth: two arguments are one tensor, and one of them is changed in place
# stage: none
# seen: no difference beyond rounding
import torch


def accumulate(total, x):
    total.add_(x)
    return x * 2.0


def main():
    compiled = torch.compile(accumulate)
    shared, other = torch.ones(4), torch.full((4,), 3.0)
    first = compiled(shared, shared)
    second = compiled(shared, other)
    return first, second, shared


if __name__ == "__main__":
    print(main())
