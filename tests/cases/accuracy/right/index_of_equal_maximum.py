# truth: the index that max returns for equal values may be any of theirs
# stage: none
# seen: no difference beyond rounding
import torch


def peaks(x):
    values, places = (x * 0.0 + 1.0).max(-1)
    return values, x.gather(-1, places[:, None]) * 0.0


def main():
    return torch.compile(peaks)(torch.arange(30.0).reshape(3, 10))


if __name__ == "__main__":
    print(main())
