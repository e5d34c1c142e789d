# truth: an attribute that a class gets from its metaclass has no guard; its new value is ignored
# stage: capture
# seen: result 1: eager -3.75, compiled -1.25
import torch


class Registry(type):
    scale = 1.5


class Codec(metaclass=Registry):
    bias = 0.25


def encode(x):
    return x * Codec.scale + Codec.bias  # <-


def main():
    compiled = torch.compile(encode)
    x = torch.linspace(-1, 1, 5)
    before = compiled(x)
    Registry.scale = 4.0
    return before, compiled(x)


if __name__ == "__main__":
    print(main())
