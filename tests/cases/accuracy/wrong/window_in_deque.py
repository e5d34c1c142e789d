# truth: the append to a deque of a closed-over window is lost; the second call starts from the first call's window
# stage: capture
# seen: result 2: eager 28, compiled 22.5
from collections import deque

import torch

window = deque([1.0], maxlen=3)


def smooth(x):
    window.append(window[-1] * 2.0)  # <-
    return x * (sum(window) / len(window))


def main():
    window.clear()
    window.append(1.0)
    smoothed = torch.compile(smooth)
    x = torch.tensor([3.0, 6.0])
    return [smoothed(x) for _ in range(3)]


if __name__ == "__main__":
    print(main())
