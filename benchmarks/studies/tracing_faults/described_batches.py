"""A note that formats an enumeration."""
import torch


class Batches:
    def __init__(self, rows):
        self.rows = rows

    def note(self, prefix):
        numbered = enumerate(self.rows)
        return prefix + format(numbered)


def train(x, batches):
    total = x.new_zeros(())
    for row in batches.rows:
        total = total + (x * row).sum()
    if len(batches.note("epoch")) > 2:
        total = total * 0.5
    return total


if __name__ == "__main__":
    torch.compile(train)(torch.randn(8), Batches([1.0, 2.0, 3.0]))
