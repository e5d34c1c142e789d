# truth: a custom operator reads the storage of a view from its start; compiled code hands it a tensor of its own
# stage: user
# seen: result 0: eager 1.5, compiled 7.5
import torch


@torch.library.custom_op("accuracy::from_start", mutates_args=())
def from_start(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x, x.shape, x.stride(), 0) * 1.0


@from_start.register_fake
def _(x):
    return torch.empty_like(x)


def shifted(x):
    tail = (x * 2.0 + 1.0)[3:]
    return from_start(tail) + 0.5  # <-


def main():
    return torch.compile(shifted)(torch.arange(6.0))


if __name__ == "__main__":
    print(main())
