# truth: the operator updates the average that it is given, and its schema does not say so: what was read before it is computed after it
# stage: user
# seen: result 0: eager 5, compiled 11; result 1: eager 9.5, compiled 12.5
import torch

lib = torch.library.Library("trackers", "DEF")
lib.define("follow(Tensor value, Tensor average) -> Tensor")


@torch.library.impl(lib, "follow", "CPU")
def follow(value, average):
    average.mul_(0.5).add_(value, alpha=0.5)
    return value - average


@torch.library.register_fake("trackers::follow")
def _(value, average):
    return torch.empty_like(value)


class Tracker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.ones(8))

    def forward(self, value):
        before = self.average * 2
        surprise = torch.ops.trackers.follow(value, self.average)  # <-
        return surprise + before


def main():
    tracker = torch.compile(Tracker())
    return tracker(torch.arange(8.0)), tracker(torch.arange(8.0))


if __name__ == "__main__":
    print(main())
