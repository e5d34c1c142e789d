# truth: an operator that casts returns its argument if there is nothing to cast, and declares a new tensor: the second call changes the argument in eager mode only
# stage: user
# seen: result 3: eager -2.5, compiled -5
import torch


lib = torch.library.Library("rawcasts", "DEF")
lib.define("single(Tensor x) -> Tensor")
lib.impl("single", lambda x: x.to(torch.float32), "CPU")


@torch.library.register_fake("rawcasts::single")
def _(x):
    return x.new_empty(x.shape, dtype=torch.float32)


def centered(x):
    y = torch.ops.rawcasts.single(x)  # <-
    y.sub_(y.mean())
    return y * 2


def main():
    compiled = torch.compile(centered)
    wide, narrow = torch.arange(6.0, dtype=torch.float64), torch.arange(6.0)
    return compiled(wide), compiled(narrow), wide, narrow


if __name__ == "__main__":
    print(main())
