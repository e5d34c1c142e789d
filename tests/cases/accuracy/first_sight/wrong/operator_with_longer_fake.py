# truth: the fake of a custom operator has as many rows as its input, the operator itself returns one row less
# stage: user
# seen: not measured
import torch


@torch.library.custom_op("accuracy::without_first", mutates_args=())
def without_first(x: torch.Tensor) -> torch.Tensor:
    return x[1:].clone()


@without_first.register_fake
def _(x):
    return x.new_empty(x.shape)


def lagged(x):
    scaled = x * 0.5
    later = without_first(scaled)  # <-
    return later.sum(0) * 2.0


def main():
    return torch.compile(lagged)(torch.arange(20.0).reshape(5, 4))


if __name__ == "__main__":
    print(main())
