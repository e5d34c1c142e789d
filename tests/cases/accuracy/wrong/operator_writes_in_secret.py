# truth: a custom operator declares no mutation and writes its argument; compiled code reads the value from before
# stage: user
# seen: result 0: eager 1.8, compiled 17
import torch


@torch.library.custom_op("accuracy::normalize_rows", mutates_args=())
def normalize_rows(x: torch.Tensor) -> torch.Tensor:
    norms = x.norm(dim=-1, keepdim=True)
    x.div_(norms)
    return norms.clone()


@normalize_rows.register_fake
def _(x):
    return x.new_empty(*x.shape[:-1], 1)


def prepare(x):
    doubled = x * 2.0
    norms = normalize_rows(doubled)  # <-
    return doubled + 1.0, norms


def main():
    return torch.compile(prepare)(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))


if __name__ == "__main__":
    print(main())
