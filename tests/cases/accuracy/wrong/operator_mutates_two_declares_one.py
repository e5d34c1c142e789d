# truth: a custom operator declares that it writes `out` and also writes `count`: an argument of the call is left behind
# stage: user
# seen: result 0: eager 12, compiled 6
import torch


@torch.library.custom_op("accuracy::fill_and_count", mutates_args=("out",))
def fill_and_count(x: torch.Tensor, out: torch.Tensor, count: torch.Tensor) -> None:
    out.copy_(x * 2)
    count.add_(1)


def run(x):
    out, count = torch.zeros_like(x), torch.zeros(1)
    fill_and_count(x, out, count)  # <-
    return out * (count + 1)


def main():
    return torch.compile(run)(torch.arange(4.0))


if __name__ == "__main__":
    print(main())
