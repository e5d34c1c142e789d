# truth: the result of an operator that records statistics is unused, so the call is removed and nothing is recorded
# stage: user
# seen: result 1: eager 3, compiled 0
import torch

history = torch.zeros(4)


@torch.library.custom_op("accuracy::record", mutates_args=())
def record(x: torch.Tensor) -> torch.Tensor:
    history.add_(x.detach())
    return x.sum()


@record.register_fake
def _(x):
    return x.new_empty(())


def layer(x):
    record(x)  # <-
    return x * 3.0


def main():
    history.zero_()
    return torch.compile(layer)(torch.arange(4.0)), history.clone()


if __name__ == "__main__":
    print(main())
