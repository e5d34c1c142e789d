"""A program that compiles nothing itself: a module of the workspace that it imports does."""

import torch
from program_parts import Scaler

if __name__ == "__main__":
    scaler = Scaler()
    scaler.step(torch.ones(2, 3))
    scaler.step(torch.ones(4, 3))
