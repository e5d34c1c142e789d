# truth: the program draws a new seed from the system at each start: two eager runs differ
# stage: none
# seen: result 0: eager -0.61788, compiled 0.234755
import os

import torch


def mixed(x, noise):
    return torch.tanh(x + noise)


def main():
    noise = torch.tensor(list(os.urandom(16))) / 255.0
    return torch.compile(mixed)(torch.linspace(-1, 1, 16), noise)


if __name__ == "__main__":
    print(main())
