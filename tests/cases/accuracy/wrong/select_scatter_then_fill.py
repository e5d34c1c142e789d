# truth: select_scatter reuses the memory of its argument, which is filled afterwards: the result is filled, too
# stage: code
# seen: result 0: eager 11, compiled -1
import torch


def snapshot(state, row):
    saved = torch.select_scatter(state, row * 2.0, 0, 1)  # <-
    state.fill_(-1.0)
    return saved


def main():
    state = torch.arange(12.0).reshape(3, 4)
    return torch.compile(snapshot)(state, torch.ones(4)), state


if __name__ == "__main__":
    print(main())
