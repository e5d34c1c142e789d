# truth: an unstable sort and a scatter with two writes of one place: eager mode promises no order
# stage: none
# seen: no difference beyond rounding
import torch


def ranked(keys, values):
    order = torch.argsort(keys * 1.0, descending=True)
    top = keys[order]
    total = torch.zeros(4).index_add(0, keys, values)
    return top, total


def main():
    torch.manual_seed(0)
    keys = torch.randint(0, 4, (3000,))
    return torch.compile(ranked)(keys, torch.randn(3000))


if __name__ == "__main__":
    print(main())
