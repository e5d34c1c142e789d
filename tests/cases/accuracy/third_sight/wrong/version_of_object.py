# truth: a branch on the identity of an object that a call exchanges
# stage: capture
# seen: results 2 and 3: off by up to 100
import torch


class Box:
    def __init__(self):
        self.inside = None


box = Box()
first = object()


def step(x):
    if box.inside is first:  # <-
        return x * 2
    box.inside = first
    return x + 100


def main():
    box.inside = None
    compiled = torch.compile(step)
    x = torch.arange(3.0)
    results = [compiled(x), compiled(x)]
    box.inside = object()
    return [*results, compiled(x), compiled(x)]


if __name__ == "__main__":
    print(main())
