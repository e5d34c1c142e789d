# truth: an operator writes its second argument, and its schema says that it writes none
# stage: user
# seen: result 0: off by up to 0.8
import torch


@torch.library.custom_op("third::averaged", mutates_args=())
def averaged(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    state.mul_(0.9).add_(x, alpha=0.1)
    return x - state


@averaged.register_fake
def _(x, state):
    return torch.empty_like(x)


def step(x, state):
    drift = state * 2
    result = averaged(x, state)  # <-
    return result + drift, state * 2


def main():
    state = torch.ones(6)
    return torch.compile(step)(torch.arange(6.0), state), state


if __name__ == "__main__":
    print(main())
