# truth: the guard on a float argument takes -0.0 for 0.0; the sign of the second call is lost
# stage: capture
# seen: result 1: eager -3, compiled 3
import torch


def with_sign(x, direction):
    return torch.copysign(x, torch.full((3,), direction))  # <-


def main():
    compiled = torch.compile(with_sign)
    x = torch.tensor([1.0, -2.0, 3.0])
    return compiled(x, 0.0), compiled(x, -0.0)


if __name__ == "__main__":
    print(main())
