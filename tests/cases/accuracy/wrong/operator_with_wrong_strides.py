# truth: the fake of a custom operator says contiguous, the operator returns a transposed tensor: with size_asserts off, elements are mixed up
# stage: user
# seen: result 0: eager 9, compiled 15
import torch
import torch._inductor.config as inductor


@torch.library.custom_op("accuracy::gram_of", mutates_args=())
def gram_of(x: torch.Tensor) -> torch.Tensor:
    return (x.t() * 1.0).contiguous().t()


@gram_of.register_fake
def _(x):
    return torch.empty(x.shape)


def features(x):
    return gram_of(x) * 2.0 + x  # <-


def main():
    inductor.size_asserts = False
    return torch.compile(features)(torch.arange(12.0).reshape(3, 4))


if __name__ == "__main__":
    print(main())
