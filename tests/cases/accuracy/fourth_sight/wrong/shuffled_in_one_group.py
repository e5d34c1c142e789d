# truth: channel_shuffle with one group is a copy in eager mode; compiled code returns the argument, which the program then overwrites
# stage: decomposition
# seen: result 0: eager 23, compiled 0
import torch


def shuffled(features, groups):
    return torch.channel_shuffle(features, groups)  # <-


def main():
    compiled = torch.compile(shuffled)
    features = torch.arange(24.0).reshape(1, 4, 2, 3)
    out = compiled(features, 1)
    out.mul_(0.0)
    return features, out


if __name__ == "__main__":
    print(main())
