# truth: right: what is expanded is copied before it is written
# stage: none
# seen: equal
import torch


def f(x, rows, votes):
    table = x.expand(4, 8).clone()
    table[1] += 2
    return table.index_add(0, rows, votes)


def main():
    return torch.compile(f)(torch.ones(1, 8), torch.tensor([0, 1, 0]), torch.arange(24.0).reshape(3, 8))


if __name__ == "__main__":
    print(main())
