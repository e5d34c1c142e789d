# truth: rows that are masked whole are NaN in eager mode as well
# stage: none
# seen: no difference beyond rounding
import torch


def attended(q, k, v, mask):
    scores = (q @ k.transpose(-1, -2)).masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def main():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 5, 8).unbind(0)
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[0, 2] = False
    return torch.compile(attended)(q, k, v, mask)


if __name__ == "__main__":
    print(main())
