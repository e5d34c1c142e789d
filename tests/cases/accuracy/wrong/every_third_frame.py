# truth: an in-place change through unfold with gaps also zeroes every row between the windows
# stage: functionalization
# seen: result 0: eager 11, compiled 0
import torch


def brighten(frames):
    picked = frames.clone()
    picked.unfold(0, 1, 3).add_(10.0)  # <-
    return picked


def main():
    frames = torch.arange(14.0).reshape(7, 2)
    return torch.compile(brighten)(frames)


if __name__ == "__main__":
    print(main())
