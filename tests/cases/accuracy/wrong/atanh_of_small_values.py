# truth: atanh of small values takes the logarithm of a rounded 1 + x: errors of 20 percent
# stage: code
# seen: result 0: eager 6e-08, compiled 1.19209e-07
import torch


def fisher(correlation):
    small = correlation * 1e-3
    return torch.atanh(small)  # <-


def main():
    return torch.compile(fisher)(torch.linspace(-1e-4, 1e-4, 16))


if __name__ == "__main__":
    print(main())
