# truth: a row of zeros has no direction: eager mode has the same NaN
# stage: none
# seen: no difference beyond rounding
import torch


def normalize(x):
    length = x.square().sum(-1, keepdim=True).sqrt()
    return x / length


def main():
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    x[2] = 0.0
    return torch.compile(normalize)(x)


if __name__ == "__main__":
    print(main())
