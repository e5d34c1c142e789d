# truth: topk of equal values may choose any of their positions; the values are equal
# stage: none
# seen: no difference beyond rounding
import torch


def leaders(x):
    values, places = torch.topk(x.round(), 4)
    return values, places


def main():
    return torch.compile(leaders)(torch.tensor([3.2, 2.9, 3.1, 1.0, 2.8, 3.3, 0.2, 3.0]))


if __name__ == "__main__":
    print(main())
