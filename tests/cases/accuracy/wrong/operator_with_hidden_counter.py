# truth: a custom operator that counts is declared free of effects: two equal calls become one
# stage: user
# seen: result 0: eager 69, compiled 66; result 1: eager 23, compiled 22
import torch

calls = [0]


@torch.library.custom_op("accuracy::next_offset", mutates_args=())
def next_offset(x: torch.Tensor) -> torch.Tensor:
    calls[0] += 1
    return x + calls[0]


@next_offset.register_fake
def _(x):
    return torch.empty_like(x)


def spread(x):
    return (x * (next_offset(x.detach()) * 10.0 + next_offset(x.detach()))).sum()  # <-


def main():
    calls[0] = 0
    x = torch.ones(3, requires_grad=True)
    value = torch.compile(spread)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
