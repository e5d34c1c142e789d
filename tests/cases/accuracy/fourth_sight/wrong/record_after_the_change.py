# truth: the program lets calls of its recorder move to the end of the graph: they see the values after the change in place
# stage: capture
# seen: result 1: eager 4.0, compiled 8.0
import torch
import torch._dynamo.config

levels = []


def record(value):
    levels.append(value.sum().item())


torch._dynamo.config.reorderable_logging_functions.add(record)


def step(x):
    record(x)  # <-
    x.mul_(2)
    record(x)
    return x + 1


def main():
    levels.clear()
    x = torch.ones(4)
    out = torch.compile(step)(x)
    return out, list(levels)


if __name__ == "__main__":
    print(main())
