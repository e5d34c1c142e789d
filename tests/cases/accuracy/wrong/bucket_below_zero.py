# truth: floor division of a small value by minus infinity is -0 instead of -1
# stage: code
# seen: result 0: eager -1, compiled 1
import torch


def bucket(position, width):
    index = position // width  # <-
    return index * 2.0 + 1.0


def main():
    position = torch.tensor([0.5, 3.0, 7.0, 1e-3] * 4)
    width = torch.tensor([-float("inf"), 2.0, -float("inf"), -1.0] * 4)
    return torch.compile(bucket)(position, width)


if __name__ == "__main__":
    print(main())
