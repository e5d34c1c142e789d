# truth: a custom operator writes its argument and says so
# stage: none
# seen: no difference beyond rounding
import torch


@torch.library.custom_op("accuracy::push_row", mutates_args={"history"})
def push_row(history: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    oldest = history[0].clone()
    history.copy_(torch.cat([history[1:], row[None]]))
    return oldest


@push_row.register_fake
def _(history, row):
    return torch.empty_like(row)


def step(history, row):
    before = history.sum()
    oldest = push_row(history, row * 2.0)
    return before, oldest, history.mean(0)


def main():
    compiled, history = torch.compile(step), torch.zeros(4, 3)
    return [compiled(history, torch.full((3,), float(at))) for at in range(1, 6)], history


if __name__ == "__main__":
    print(main())
