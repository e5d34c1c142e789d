# truth: the sign bit of a NaN is not defined
# stage: none
# seen: result 1: eager 0, compiled 1
import torch


def roots(x):
    root = torch.sqrt(x)
    return root, torch.signbit(root)


def main():
    return torch.compile(roots)(torch.tensor([-4.0, 9.0, -1.0, 0.0] * 8))


if __name__ == "__main__":
    print(main())
