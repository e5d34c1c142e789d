# truth: the indices of a pool with equal maxima may differ; the values at them are equal
# stage: none
# seen: no difference beyond rounding
import torch


def pooled(x):
    rounded = (x * 2.0).round()
    values, indices = torch.nn.functional.max_pool2d(rounded, 2, return_indices=True)
    return values, rounded.flatten(-2).gather(-1, indices.flatten(-2))


def main():
    return torch.compile(pooled)(torch.linspace(-1, 1, 64).cos().reshape(1, 1, 8, 8))


if __name__ == "__main__":
    print(main())
