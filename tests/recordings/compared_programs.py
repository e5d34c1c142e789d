"""A program and a later version of it with planted changes. `record_comparisons.py` runs both."""

BEFORE = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        h = torch.relu(self.up(x))
        print("hidden", tuple(h.shape))
        return self.down(h)


@torch.compile
def scaled(x, factor):
    return x * factor + 1


@torch.compile
def loss(y):
    return (y - 1).square().mean()


@torch.compile
def unchanged(x):
    return x.sin().cos()


net = torch.compile(Net())
x = torch.ones(4, 8)
with torch.no_grad():
    y = net(x)
    for factor in (1, 2):
        y = scaled(y, factor)
    loss(y)
    unchanged(x)
"""
EDITS = (
    ("class Net", "# A comment that moves the lines below.\n\n\nclass Net"),
    ("scaled(y, factor)", "scaled(y, torch.tensor(factor))"),
    ("    return (y - 1).square()", "    if y.sum() > 0:\n        y = y * 2\n    return (y - 1).square()"),
)
"""A break moves, a recompilation is fixed, and a break is new."""


def programs() -> dict[str, str]:
    """Name and text of each program."""
    after = BEFORE
    for old, new in EDITS:
        if after.count(old) != 1:
            raise ValueError(f"`{old}` occurs {after.count(old)} times in the program")
        after = after.replace(old, new)
    return {"before": BEFORE, "after": after}
