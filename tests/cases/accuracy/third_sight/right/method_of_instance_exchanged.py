# truth: right: a method that is assigned to the instance is guarded, so that the third call compiles again
# stage: none
# seen: equal
import torch


class Gain:
    def __init__(self):
        self.apply = lambda x: x * 2

gain = Gain()


def step(x):
    return gain.apply(x) + 1


def main():
    compiled = torch.compile(step)
    x = torch.arange(3.0)
    results = [compiled(x), compiled(x)]
    gain.apply = lambda x: x * 9
    results.append(compiled(x))
    gain.apply = lambda x: x * 2
    return results


if __name__ == "__main__":
    print(main())
