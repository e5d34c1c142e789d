# truth: arguments are changed in place, through views, too; compiled code does the same
# stage: none
# seen: no difference beyond rounding
import torch


def exchange(left, right):
    kept = left[:2].clone()
    left[:2].copy_(right[:2])
    right[:2] = kept
    left.t().mul_(2.0)
    return left.sum() - right.sum()


def main():
    left, right = torch.arange(9.0).reshape(3, 3), -torch.arange(9.0).reshape(3, 3)
    return torch.compile(exchange)(left, right), left, right


if __name__ == "__main__":
    print(main())
