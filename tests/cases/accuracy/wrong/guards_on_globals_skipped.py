# truth: skip_guard_on_globals_unsafe drops the guard on a global that does change
# stage: capture
# seen: result 1: eager 0.5, compiled 0.1
import torch

momentum = 0.9


def blend(average, x):
    return average * momentum + x * (1 - momentum)  # <-


def main():
    global momentum
    momentum = 0.9
    options = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
    compiled = torch.compile(blend, options=options)
    average, x = torch.zeros(3), torch.ones(3)
    first = compiled(average, x)
    momentum = 0.5
    return first, compiled(average, x)


if __name__ == "__main__":
    print(main())
