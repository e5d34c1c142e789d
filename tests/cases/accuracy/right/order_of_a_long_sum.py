# truth: sums of 40,000 values in another order; both are within the rounding of a sum
# stage: none
# seen: result 1: eager 39.9998, compiled 40.0009
import torch


def energy(x):
    return (x * x).sum(), x.sum()


def main():
    x = torch.linspace(-1, 1, 40_000).sin() + 1e-3
    return torch.compile(energy)(x)


if __name__ == "__main__":
    print(main())
