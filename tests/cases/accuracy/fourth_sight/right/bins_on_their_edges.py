# truth: a product of three factors lies on the edge of a bin: one rounding step decides, and eager mode is no closer to float64
# stage: none
# seen: no difference beyond rounding
import torch


def binned(x, width, shift):
    y = x * width + shift
    return (y / width).floor().long()


def main():
    x = torch.arange(0.0, 40.0)
    return torch.compile(binned)(x, torch.tensor(0.1), torch.tensor(0.3))


if __name__ == "__main__":
    print(main())
