# truth: a custom operator writes the tensors of a list, and its schema says so
# stage: none
# seen: no difference beyond rounding
import torch
from torch import Tensor

library = torch.library.Library("accuracy_lists", "DEF")
library.define("spread_into(Tensor x, Tensor(a!)[] parts) -> ()")


@torch.library.impl(library, "spread_into", "CompositeExplicitAutograd")
def spread_into(x, parts):
    for at, part in enumerate(parts, 1):
        part.add_(x, alpha=at)


@torch.library.register_fake("accuracy_lists::spread_into")
def _(x, parts):
    return None


def scatter(x: Tensor):
    parts = [torch.zeros_like(x) for _ in range(3)]
    torch.ops.accuracy_lists.spread_into(x.cos(), parts)
    return parts[0] + parts[1] * parts[2], parts[2]


def main():
    return torch.compile(scatter)(torch.linspace(0, 1, 6))


if __name__ == "__main__":
    print(main())
