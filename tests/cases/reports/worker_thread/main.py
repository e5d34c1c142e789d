"""Requests of twelve batch sizes go to a thread that runs the compiled model."""
import torch

from engine import Engine

if __name__ == "__main__":
    engine = Engine()
    with torch.no_grad():
        for batch in range(1, 13):
            engine.submit(torch.randn(batch, 16)).result()
    engine.pool.shutdown()
# run by: make corpora
