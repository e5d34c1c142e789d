# truth: OrderedDict.move_to_end changes the order of the stages; compiled code keeps the old order
# stage: capture
# seen: result 1: eager 36.5, compiled 42.25
from collections import OrderedDict

import torch

stages = OrderedDict(scale=3.0, shift=0.5, square=2.0)


def pipeline(x):
    for name, amount in stages.items():  # <-
        if name == "scale":
            x = x * amount
        elif name == "shift":
            x = x + amount
        else:
            x = x.pow(amount)
    return x


def main():
    stages.move_to_end("square")
    compiled = torch.compile(pipeline)
    x = torch.tensor([1.0, 2.0])
    first = compiled(x)
    stages.move_to_end("shift")
    return first, compiled(x)


if __name__ == "__main__":
    print(main())
