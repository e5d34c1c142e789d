# truth: a custom operator hands out its own buffer each time; compiled code reuses that memory for another result
# stage: user
# seen: result 1: eager -2.40343, compiled 0.581348; result 2: eager -2.77291, compiled -1.97788
import torch

buffer = torch.zeros(2048)


@torch.library.custom_op("accuracy::moving_average", mutates_args=())
def moving_average(x: torch.Tensor) -> torch.Tensor:
    buffer.mul_(0.5).add_(x)
    return buffer.view(-1)


@moving_average.register_fake
def _(x):
    return torch.empty_like(x)


def track(x):
    average = moving_average(x)  # <-
    return (average + 1.0).cos() * 3.0


def main():
    buffer.zero_()
    compiled = torch.compile(track)
    return [compiled(torch.ones(2048)).clone()[:4] for _ in range(3)]


if __name__ == "__main__":
    print(main())
