# truth: a function marked with assume_constant_result does change what it returns
# stage: capture
# seen: result 1: eager 0.99, compiled 0.9
import torch

learning_rates = [0.1, 0.01]


@torch.compiler.assume_constant_result
def current_rate():
    return learning_rates[0]


def update(weight, grad):
    return weight - current_rate() * grad  # <-


def main():
    learning_rates[:] = [0.1, 0.01]
    compiled = torch.compile(update)
    weight, grad = torch.ones(3), torch.ones(3)
    first = compiled(weight, grad)
    learning_rates.pop(0)
    return first, compiled(weight, grad)


if __name__ == "__main__":
    print(main())
