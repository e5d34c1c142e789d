# truth: a custom operator has a decomposition for the compiler that forgets its epsilon
# stage: decomposition
# seen: result 0: eager 10, compiled 100
import torch
from torch._inductor import config, decomposition


@torch.library.custom_op("accuracy::safe_divide", mutates_args=())
def safe_divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x / (y + 0.1)


@safe_divide.register_fake
def _(x, y):
    return torch.empty_like(x)


@decomposition.register_decomposition(torch.ops.accuracy.safe_divide.default)
def decomposed(x, y):
    return x / y


def ratio(x, y):
    return safe_divide(x, y).clamp(max=100.0)  # <-


def main():
    config.fx_graph_cache = False
    decomposition.fast_random_decomps.cache_clear()
    return torch.compile(ratio)(torch.ones(4), torch.tensor([0.0, 0.5, 1.0, 2.0]))


if __name__ == "__main__":
    print(main())
