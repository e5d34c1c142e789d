"""A list or a tuple comes; a subclass of list counts itself in another way."""

import torch


# fuselight: joined([f32[3], f32[2]])
# fuselight: joined((f32[3], f32[2]))
@torch.compile
def joined(parts):
    return torch.cat(parts) * len(parts)


class Reversed(list):
    def __len__(self):
        return 7


def probe_plain():
    """Values of lists and tuples."""
    return joined([torch.ones(2)]), joined((torch.ones(2), torch.zeros(1)))


def probe_subclass():
    """Other kinds of lists."""
    return joined(Reversed([torch.ones(2)]))


def probe_iterator():
    """Other iterables raise an exception."""
    try:
        return joined(iter([torch.ones(2)]))
    except Exception as error:
        return type(error).__name__
