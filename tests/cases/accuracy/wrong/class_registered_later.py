# truth: isinstance of an abstract base class changes with register(); compiled code keeps the first answer
# stage: capture
# seen: result 1: eager 5.5, compiled 0.6875
from abc import ABC

import torch


class Normalized(ABC):
    pass


class Batch:
    values = torch.tensor([1.0, 2.0, 5.0])


batch = Batch()


def prepare(shift):
    if isinstance(batch, Normalized):  # <-
        return batch.values + shift
    return (batch.values + shift) / batch.values.sum()


def main():
    compiled = torch.compile(prepare)
    shift = torch.tensor(0.5)
    first = compiled(shift)
    Normalized.register(Batch)
    return first, compiled(shift)


if __name__ == "__main__":
    print(main())
