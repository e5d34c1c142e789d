# truth: the difference of two large values leaves only rounding: no digit of it is right in eager mode either
# stage: none
# seen: result 0: eager -0.00195312, compiled 0
import torch


def cancelled(x):
    return torch.exp(x).sum(-1) - torch.exp(x - 3.0).sum(-1) * 20.085536923187668


def main():
    return torch.compile(cancelled)(torch.linspace(0, 8, 96).reshape(4, 24))


if __name__ == "__main__":
    print(main())
