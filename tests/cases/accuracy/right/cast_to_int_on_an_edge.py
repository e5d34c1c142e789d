# truth: a value that is 3 but for rounding is cut to an integer: 2 or 3
# stage: none
# seen: result 1: eager 3, compiled 2
import torch


def bins(x):
    return ((x / 0.1) * 0.1 * 10).to(torch.int32), (x.exp().log() * 10).int()


def main():
    return torch.compile(bins)(torch.arange(1, 17) / 10)


if __name__ == "__main__":
    print(main())
