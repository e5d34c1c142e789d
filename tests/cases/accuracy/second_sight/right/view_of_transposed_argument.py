# truth: results are views of an argument which the call writes through another view; compiled code keeps that
# stage: none
# seen: no difference beyond rounding
import torch


def write_diagonal(table):
    turned = table.t()
    turned.diagonal(1).mul_(10.0)
    return turned[1:], table.as_strided((3,), (6,)), table.unfold(-1, 3, 2)


def main():
    table = torch.arange(25.0).reshape(5, 5)
    compiled = torch.compile(write_diagonal)
    return compiled(table), compiled(table), table


if __name__ == "__main__":
    print(main())
