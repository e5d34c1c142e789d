import torch


class Bounded:
    def __init__(self, low, high):
        self.low = torch.as_tensor(low)
        self.high = torch.as_tensor(high)

    def is_in(self, value):
        return bool((value >= self.low).all() and (value <= self.high).all())
        # warning: [GB0124] "graph break: `bool()` converts a tensor to a Python number"
        # warning: [GB0170] "graph break: a branch depends on the data of a tensor"

    def project(self, value):
        if not self.is_in(value):
            value = value.clamp(self.low, self.high)
        return value
