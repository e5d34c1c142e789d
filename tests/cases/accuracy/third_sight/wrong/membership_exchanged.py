# truth: compiled code keeps the answer of a membership test whose class has another method since
# stage: capture
# seen: result 1: off by up to 4
import torch


class Allowed:
    def __contains__(self, name):
        return name.startswith("a")


allowed = Allowed()


def step(x):
    if "alpha" in allowed:  # <-
        return x * 2
    return x - 1


def main():
    compiled = torch.compile(step)
    x = torch.arange(4.0)
    first = compiled(x)
    before = Allowed.__contains__
    Allowed.__contains__ = lambda self, name: False
    second = compiled(x)
    Allowed.__contains__ = before
    return first, second, compiled(x)


if __name__ == "__main__":
    print(main())
