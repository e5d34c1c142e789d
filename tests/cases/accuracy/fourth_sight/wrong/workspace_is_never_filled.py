# truth: an operator fills a workspace and its schema says that it changes nothing and returns nothing: compiled code drops the call
# stage: user
# seen: result 0: eager 1.28366, compiled nan
import torch

lib = torch.library.Library("tables", "DEF")
lib.define("fill_positions(Tensor workspace, int start) -> ()")


@torch.library.impl(lib, "fill_positions", "CPU")
def fill_positions(workspace, start):
    workspace.copy_(torch.arange(start, start + workspace.numel(), dtype=workspace.dtype))


@torch.library.register_fake("tables::fill_positions")
def _(workspace, start):
    return None


def encoded(x):
    positions = torch.empty(x.shape[-1])
    torch.ops.tables.fill_positions(positions, 5)  # <-
    return x + torch.cos(positions)


def main():
    return torch.compile(encoded)(torch.ones(3, 16))


if __name__ == "__main__":
    print(main())
