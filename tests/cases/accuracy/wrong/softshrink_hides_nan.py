# truth: softshrink turns a NaN into 0
# stage: code
# seen: result 0: eager nan, compiled 0
import torch


def denoise(x):
    ratio = x / x
    return torch.nn.functional.softshrink(ratio * 2.0)  # <-


def main():
    return torch.compile(denoise)(torch.tensor([0.0, 1.0, 2.0, 0.0] * 4))


if __name__ == "__main__":
    print(main())
