# truth: the square overflows float16 in eager mode only; compiled code is finite and right
# stage: none
# seen: result 0: eager inf, compiled 132
import torch


def power(x):
    squared = x * x
    return squared / 512.0


def main():
    return torch.compile(power)(torch.tensor([12.0, 260.0, 400.0, 1000.0], dtype=torch.float16))


if __name__ == "__main__":
    print(main())
