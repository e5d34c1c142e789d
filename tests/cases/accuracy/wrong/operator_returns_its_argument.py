# truth: an operator of a Library returns a view of its argument but its schema says a new tensor
# stage: user
# seen: result 0: eager 1, compiled 4
import torch

library = torch.library.Library("accuracy_views", "DEF")
library.define("first_half(Tensor x) -> Tensor")
library.impl("first_half", lambda x: x[: x.shape[0] // 2], "CPU")
library.impl("first_half", lambda x: x.new_empty(x.shape[0] // 2, *x.shape[1:]), "Meta")


def zero_half(x):
    values = x * 1.5
    torch.ops.accuracy_views.first_half(values).zero_()  # <-
    return values + 1.0


def main():
    return torch.compile(zero_half)(torch.arange(6.0))


if __name__ == "__main__":
    print(main())
