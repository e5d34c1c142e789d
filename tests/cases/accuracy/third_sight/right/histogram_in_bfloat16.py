# truth: right: sums of many small parts in bfloat16, in another order
# stage: none
# seen: result 2: off by up to 1.9e-06
import torch


def histogram(values, rows):
    table = torch.zeros(16, dtype=values.dtype)
    return table.index_add(0, rows, values), values.cumsum(0)[-1], (values / 3).softmax(0)


def main():
    torch.manual_seed(0)
    return torch.compile(histogram)(torch.rand(4096).bfloat16(), torch.randint(0, 16, (4096,)))


if __name__ == "__main__":
    print(main())
