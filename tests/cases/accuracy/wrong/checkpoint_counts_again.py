# truth: a checkpoint recomputes a custom operator with a counter; the program's gradient uses another value than eager's
# stage: user
# seen: result 0: eager 3.32839, compiled 2.33797; result 1: eager -1.45238, compiled 2.16121
import torch
from torch.utils.checkpoint import checkpoint

calls = [0.0]


@torch.library.custom_op("accuracy::growing_scale", mutates_args=())
def growing_scale(x: torch.Tensor) -> torch.Tensor:
    calls[0] += 1.0
    return torch.full_like(x, calls[0])


@growing_scale.register_fake
def _(x):
    return torch.empty_like(x)


def block(x):
    return (x * growing_scale(x.detach())).sin()


def loss(x):
    return checkpoint(block, x, use_reentrant=False).sum() + checkpoint(block, x, use_reentrant=False).sum()  # <-


def main():
    calls[0] = 0.0
    x = torch.linspace(0.1, 0.5, 4, requires_grad=True)
    value = torch.compile(loss)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
