# truth: two scores differ by less than a rounding step; either index is right
# stage: none
# seen: no difference beyond rounding
import torch


def winner(x, weight):
    scores = (x * weight).sum(-1) / weight.sum(-1)
    return scores.argmax()


def main():
    base = torch.linspace(0.1, 0.9, 257)
    x = torch.stack([base, base.flip(0), base.roll(100), base.roll(31)])
    return torch.compile(winner)(x, torch.ones(4, 257))


if __name__ == "__main__":
    print(main())
