# truth: two arguments are views of one storage that overlap; the change of one is read through the other
# stage: none
# seen: no difference beyond rounding
import torch


def shift(left, right):
    left.add_(10.0)
    return right * 1.0


def main():
    memory = torch.arange(8.0)
    return torch.compile(shift)(memory[:5], memory[3:]), memory


if __name__ == "__main__":
    print(main())
