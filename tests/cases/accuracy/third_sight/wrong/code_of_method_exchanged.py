# truth: compiled code keeps the statements of a method whose code object is exchanged
# stage: capture
# seen: result 1: off by up to 21
import torch


class Gain:
    def apply(self, x):
        return x * 2.0


def doubled_more(self, x):
    return x * 9.0


gain = Gain()


def step(x):
    return gain.apply(x) + 1  # <-


def main():
    compiled = torch.compile(step)
    x = torch.arange(1.0, 4.0)
    first = compiled(x)
    before = Gain.apply.__code__
    Gain.apply.__code__ = doubled_more.__code__
    second = compiled(x)
    Gain.apply.__code__ = before
    return first, second


if __name__ == "__main__":
    print(main())
