# truth: index_put reuses the memory of its argument, which is zeroed afterwards: the result is lost
# stage: code
# seen: result 0: eager 50, compiled 0
import torch


def take_and_clear(queue, slot, value):
    taken = torch.index_put(queue, (slot,), value)  # <-
    queue.zero_()
    return taken


def main():
    queue = torch.arange(1.0, 13.0).reshape(4, 3)
    return torch.compile(take_and_clear)(queue, torch.tensor([2]), torch.full((1, 3), 50.0)), queue


if __name__ == "__main__":
    print(main())
