# truth: a custom operator that declares the argument it writes
# stage: none
# seen: no difference beyond rounding
import torch


@torch.library.custom_op("accuracy_right::add_into", mutates_args=("total",))
def add_into(total: torch.Tensor, x: torch.Tensor) -> None:
    total.add_(x)


def run(total, x):
    before = total * 1.0
    add_into(total, x)
    return before, total * 2.0


def main():
    total = torch.ones(4)
    return torch.compile(run)(total, torch.arange(4.0)), total


if __name__ == "__main__":
    print(main())
