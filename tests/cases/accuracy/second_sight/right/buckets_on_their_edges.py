# truth: indices below zero, an empty index, and values that are exactly on the edges of buckets
# stage: none
# seen: no difference beyond rounding
import torch


def look_up(values, table, rows, none):
    bucket = torch.bucketize(values, torch.arange(5.0), right=True)
    edges = torch.searchsorted(torch.arange(5.0), values)
    return bucket, edges, table[rows], table[none].sum(0), table[:, -1].roll(-7), torch.take(table, rows)


def main():
    compiled = torch.compile(look_up)
    values, table = torch.arange(-1.0, 6.0, 0.5), torch.arange(20.0).reshape(5, 4)
    none = torch.empty(0, dtype=torch.long)
    return compiled(values, table, torch.tensor([-1, -5, 4, 0]), none), compiled(values, table, none, none)


if __name__ == "__main__":
    print(main())
