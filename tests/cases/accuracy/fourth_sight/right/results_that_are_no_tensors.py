# truth: results are a named tuple with a string, a number, None, a set and a tensor: all as in eager mode
# stage: none
# seen: no difference beyond rounding
from typing import NamedTuple

import torch


class Answer(NamedTuple):
    label: str
    score: float
    rest: object
    tags: set
    logits: torch.Tensor


def answered(x, name):
    logits = torch.log_softmax(x, -1)
    return Answer(name.upper(), x.shape[0] / 2, None, {name, "all"}, logits)


def main():
    return torch.compile(answered)(torch.arange(6.0), "cat"), torch.compile(answered)(
        torch.arange(8.0), "dog"
    )


if __name__ == "__main__":
    print(main())
