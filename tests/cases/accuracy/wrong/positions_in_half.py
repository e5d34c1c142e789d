# truth: the sum of ones along a dimension gets the type int64 instead of float16; the values are equal
# stage: code
# seen: result 0: eager float16 [3, 4], compiled int64 [3, 4]
import torch


def positions(x):
    seen = torch.full((3, 4), True)
    return seen.cumsum(1, dtype=torch.float16), x + 1  # <-


def main():
    return torch.compile(positions)(torch.ones(2))


if __name__ == "__main__":
    print(main())
