# truth: a schema of a library names no argument that is written; compiled code drops the operator, which returns nothing
# stage: user
# seen: result 1: eager 1.5, compiled 0
import torch

library = torch.library.Library("accuracy_rows", "FRAGMENT")
library.define("store(Tensor row, Tensor table, int at) -> ()")


def store(row, table, at):
    table[at].copy_(row)


library.impl("store", store, "CPU")
torch.library.register_fake("accuracy_rows::store", lambda row, table, at: None)


def remember(row, table):
    halved = row * 0.5
    torch.ops.accuracy_rows.store(halved, table, 1)  # <-
    return halved + 1.0


def main():
    table = torch.zeros(3, 4)
    return torch.compile(remember)(torch.arange(4.0), table), table


if __name__ == "__main__":
    print(main())
