# truth: a string that is equal but another object is another value for `is`; the guard compares by value
# stage: capture
# seen: result 1: eager 36, compiled 4.5
import torch

MEAN = "-".join(["batch", "mean"])


def reduced(losses, reduction):
    if reduction is MEAN:  # <-
        return losses.mean()
    return losses.sum()


def main():
    compiled = torch.compile(reduced)
    losses = torch.arange(1.0, 9.0)
    first = compiled(losses, MEAN)
    return first, compiled(losses, "-".join(["batch", "mean"]))


if __name__ == "__main__":
    print(main())
