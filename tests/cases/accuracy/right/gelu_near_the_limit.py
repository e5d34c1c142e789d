# truth: eager gelu multiplies first and overflows at 3e38; compiled code is finite
# stage: none
# seen: result 0: eager inf, compiled 3e+38
import torch


def activate(x):
    return torch.nn.functional.gelu(x)


def main():
    return torch.compile(activate)(torch.tensor([1.0, 2.0, 3e38, 3.3e38] * 4))


if __name__ == "__main__":
    print(main())
