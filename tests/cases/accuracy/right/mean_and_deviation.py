# truth: variance in one pass and in two passes differ in the last bits
# stage: none
# seen: no difference beyond rounding
import torch


def standardize(x):
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def main():
    x = torch.arange(600.0).reshape(3, 200).cos() + 5.0
    return torch.compile(standardize)(x)


if __name__ == "__main__":
    print(main())
