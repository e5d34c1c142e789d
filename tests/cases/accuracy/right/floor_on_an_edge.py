# truth: a sum of weights that is 1 but for rounding goes through floor: eager is as far from float64 as compiled code
# stage: none
# seen: result 0: eager 0, compiled 1
import torch


def whole(x):
    return torch.softmax(x, -1).sum(-1).floor()


def main():
    x = torch.linspace(-3, 3, 48 * 31).reshape(48, 31).sin() * 6
    return torch.compile(whole)(x)


if __name__ == "__main__":
    print(main())
