# truth: the fake of a custom operator says float32, the operator returns float64: only the type of later results differs
# stage: user
# seen: result 0: eager float64[2, 2], compiled float32[2, 2]
import torch


@torch.library.custom_op("accuracy::precise_mean", mutates_args=())
def precise_mean(x: torch.Tensor) -> torch.Tensor:
    return x.double().mean(-1)


@precise_mean.register_fake
def _(x):
    return x.new_empty(x.shape[:-1])


def level(x):
    return torch.stack([precise_mean(x), precise_mean(x + 1)])  # <-


def main():
    return torch.compile(level)(torch.arange(8.0).reshape(2, 4))


if __name__ == "__main__":
    print(main())
