# truth: eager dropout with p=0 returns its input, compiled a copy: a later in-place change does not reach the input
# stage: functionalization
# seen: result 0: eager 30, compiled 3
import torch


def regularize(x):
    return torch.nn.functional.dropout(x, 0.0)  # <-


def main():
    x = torch.tensor([1.0, 2.0, 3.0])
    hidden = torch.compile(regularize)(x)
    hidden.mul_(10.0)
    return x, hidden


if __name__ == "__main__":
    print(main())
