# truth: the guard on a setting takes -0.0 for 0.0; atan2 of the second call has the other sign
# stage: capture
# seen: result 1: eager -3.14159, compiled 3.14159
import math

import torch

settings = {"offset": 0.0}


def heading(x):
    return x + math.atan2(settings["offset"], -1.0)  # <-


def main():
    settings["offset"] = 0.0
    compiled = torch.compile(heading)
    x = torch.zeros(2)
    left = compiled(x)
    settings["offset"] = -0.0
    return left, compiled(x)


if __name__ == "__main__":
    print(main())
