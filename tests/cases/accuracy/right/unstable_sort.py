# truth: sort without stable=True may order equal keys in any way
# stage: none
# seen: no difference beyond rounding
import torch


def ranked(scores):
    keys = (scores * 4).int()
    ordered, order = torch.sort(keys)
    return ordered, scores[order].sum()


def main():
    return torch.compile(ranked)(torch.linspace(1, 0, 40))


if __name__ == "__main__":
    print(main())
