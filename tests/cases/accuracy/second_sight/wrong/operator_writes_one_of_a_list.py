# truth: a custom operator takes a list of tensors and writes the last of them, which its schema does not say
# stage: user
# seen: result 1: eager 8, compiled 1
import torch
from torch import Tensor

library = torch.library.Library("accuracy_list", "DEF")
library.define("gather_into(Tensor[] parts) -> Tensor")


@torch.library.impl(library, "gather_into", "CompositeExplicitAutograd")
def gather_into(parts):
    total = torch.stack(parts[:-1]).sum(0)
    parts[-1].add_(total)
    return total * 1.0


@torch.library.register_fake("accuracy_list::gather_into")
def _(parts):
    return torch.empty_like(parts[0])


def reduce(a: Tensor, b: Tensor):
    store = torch.zeros_like(a)
    total = torch.ops.accuracy_list.gather_into([a * 2.0, b, store])  # <-
    return total, store + 1.0


def main():
    return torch.compile(reduce)(torch.arange(4.0), torch.ones(4))


if __name__ == "__main__":
    print(main())
