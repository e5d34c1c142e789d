# truth: a class method that is exchanged between calls is not guarded
# stage: capture
# seen: result 1: off by up to 1.35
import torch


class Schedule:
    @classmethod
    def rate(cls, x):
        return x * 0.5


schedule = Schedule()


def update(weight, gradient):
    moved = schedule.rate(gradient)  # <-
    return weight - moved


def main():
    compiled = torch.compile(update)
    weight, gradient = torch.ones(4), torch.arange(4.0)
    first = compiled(weight, gradient)
    before = Schedule.__dict__["rate"]
    Schedule.rate = classmethod(lambda cls, x: x * 0.05)
    second = compiled(weight, gradient)
    Schedule.rate = before
    return first, second


if __name__ == "__main__":
    print(main())
