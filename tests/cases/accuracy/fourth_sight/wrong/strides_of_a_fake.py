# truth: the fake of an operator promises contiguous memory and the operator returns a transposed one, whose memory is then read flat
# stage: user
# seen: result 0: eager 20, compiled 8
import torch
import torch._inductor.config

torch._inductor.config.size_asserts = False
lib = torch.library.Library("layouts", "DEF")
lib.define("outer_columns(Tensor a, Tensor b) -> Tensor")
lib.impl("outer_columns", lambda a, b: torch.outer(b, a).t(), "CPU")


@torch.library.register_fake("layouts::outer_columns")
def _(a, b):
    return a.new_empty(a.shape[0], b.shape[0])


def flattened(a, b):
    table = torch.ops.layouts.outer_columns(a, b)  # <-
    return table.reshape(-1) * 2


def main():
    return torch.compile(flattened)(torch.arange(1.0, 4.0), torch.arange(1.0, 6.0))


if __name__ == "__main__":
    print(main())
