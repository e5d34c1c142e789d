from dataclasses import dataclass


@dataclass
class Config:
    level: float = 1.0


def damping(x, level):
    if isinstance(level, float):
        return x * level
    return x // level
