# truth: elu of small negative values is computed as exp - 1 in float32: errors of 20 percent
# stage: code
# seen: result 0: eager -5.66667e-07, compiled -5.96046e-07
import torch


def activation(x):
    centered = x - 1e-6
    return torch.nn.functional.elu(centered)  # <-


def main():
    return torch.compile(activation)(torch.linspace(-5e-7, 9e-7, 16))


if __name__ == "__main__":
    print(main())
