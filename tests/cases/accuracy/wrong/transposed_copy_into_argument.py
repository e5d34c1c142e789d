# truth: an argument gets the transposed copy of a value that is changed next: the argument is wrong, the returned value right
# stage: code
# seen: result 1: eager 4, compiled 20
import torch


def reorder(x):
    raised = x + 1.0
    x.copy_(raised.t().reshape(4, 6))  # <-
    raised.add_(x)
    return raised


def main():
    x = torch.arange(24.0).reshape(4, 6)
    return torch.compile(reorder)(x), x


if __name__ == "__main__":
    print(main())
