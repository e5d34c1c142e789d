# truth: calls with other sizes compile again with symbolic sizes; results are right
# stage: none
# seen: no difference beyond rounding
import torch


def averaged(x):
    return x.sum(0) / x.shape[0] + torch.arange(x.shape[1])


def main():
    compiled = torch.compile(averaged)
    return [compiled(torch.ones(rows, 5) * rows) for rows in (2, 3, 7)]


if __name__ == "__main__":
    print(main())
