# truth: right: an operator says that it writes its second argument, through a view of a buffer
# stage: none
# seen: equal
import torch


@torch.library.custom_op("third::averaged_well", mutates_args=("state",))
def averaged(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    state.mul_(0.9).add_(x, alpha=0.1)
    return x - state


@averaged.register_fake
def _(x, state):
    return torch.empty_like(x)


def step(x, state):
    drift = state * 2
    result = averaged(x, state[1])
    return result + drift, state * 2


def main():
    state = torch.ones(2, 6)
    return torch.compile(step)(torch.arange(6.0), state), state


if __name__ == "__main__":
    print(main())
