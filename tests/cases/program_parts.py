"""Compiled functions without inputs of their own, which a program of the workspace calls: program_imports.py."""

import torch


@torch.compile
def scaled(x, factor):
    return x * factor  # warning: [FL201] "factor was 1, now 2"


class Scaler:
    def __init__(self):
        self.calls = 0

    def step(self, x):
        self.calls += 1
        return scaled(x, self.calls)
