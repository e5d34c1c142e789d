# truth: random.Random of the program is not followed: its number does not advance, and Inductor's code reads garbage
# stage: capture
# seen: result 0: eager 0.45238, compiled 8.54027e+18; result 1: eager 0.559772, compiled 8.54027e+18; result 2: eager 0.924211, compiled 8.54027e+18
import random

import torch

noise = random.Random(11)


def jitter(x):
    return x + noise.uniform(0.0, 1.0)  # <-


def main():
    noise.seed(11)
    jittered = torch.compile(jitter)
    return [jittered(torch.zeros(3)) for _ in range(3)]


if __name__ == "__main__":
    print(main())
