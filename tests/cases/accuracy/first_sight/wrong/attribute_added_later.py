# truth: what `vars` of an object has is read when it is traced; an attribute that comes later compiles nothing again
# stage: capture
# seen: result 1: eager 0.857143, compiled 0.428571
import torch


class Penalties:
    def __init__(self):
        self.ridge = 0.5


penalties = Penalties()


def loss(error):
    count = len(vars(penalties))  # <-
    return (error * error).mean() * count


def main():
    compiled = torch.compile(loss)
    error = torch.linspace(-1, 1, 8)
    before = compiled(error)
    penalties.lasso = 0.25
    after = compiled(error)
    del penalties.lasso
    return before, after


if __name__ == "__main__":
    print(main())
