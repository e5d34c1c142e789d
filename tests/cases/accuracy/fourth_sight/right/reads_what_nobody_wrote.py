# truth: a part of the result is memory that nobody wrote: eager mode itself returns another value each time
# stage: none
# seen: no difference beyond rounding in what is returned
import torch


def padded(x):
    out = torch.empty(x.shape[0] + 4096)
    out[: x.shape[0]] = x * 2
    return out


def main():
    return torch.compile(padded)(torch.arange(8.0))[:8]


if __name__ == "__main__":
    print(main())
