"""What recording the value of each expression costs: a capture with it against the same capture without.

The model is the source of GPT-2 in `transformers` with 6 layers, copied to a folder that counts as the workspace, since
expressions of libraries are not recorded. Captures with and without run in one process, interleaved; processor time is
compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import Row, median

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 7
LIMIT = 1.10

_PROGRAM = """
import json, re, sys, time
from pathlib import Path

import torch
from transformers.models.gpt2 import modeling_gpt2

from fuselight.shared.codec import encode
from fuselight.capture.dynamo import Recorder, capture_only

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
text = Path(modeling_gpt2.__file__).read_text(encoding="utf-8")
text = text.replace("from ... import", "from transformers import")
text = re.sub(r"^(\\s*)from \\.\\.\\.", r"\\1from transformers.", text, flags=re.MULTILINE)
text = text.replace("from .configuration", "from transformers.models.gpt2.configuration")
(folder / "copied_gpt2.py").write_text(text, encoding="utf-8")
sys.path.insert(0, str(folder))
from copied_gpt2 import GPT2LMHeadModel

torch.set_num_threads(1)
torch.manual_seed(0)
sizes = {"n_layer": 6, "n_embd": 64, "n_head": 4, "vocab_size": 256}
config = modeling_gpt2.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False)
model, ids = GPT2LMHeadModel(config).eval(), torch.randint(256, (1, 64))

def capture(facts):
    torch._dynamo.reset()
    started = time.process_time()
    with torch.no_grad(), capture_only(), Recorder(roots=(str(folder),), facts=facts) as recorder:
        torch.compile(model)(ids)
    found = recorder.facts()
    recorder.parts()
    json.dumps(encode(found))
    return time.process_time() - started, sum(len(one.facts) for one in found.files.values())

for _ in range(2):
    capture(True), capture(False)
times = {True: [], False: []}
for index in range(rounds):
    for facts in (True, False) if index % 2 else (False, True):
        seconds, count = capture(facts)
        times[facts].append(seconds)
        assert bool(count) == facts, count
print(json.dumps([times[True], times[False], capture(True)[1]]))
"""


def rows() -> list[Row]:
    """The promise about facts of expressions."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
        command = [sys.executable, "-c", _PROGRAM, folder, str(ROUNDS)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the captures ended with {done.returncode}:\n{done.stderr[-2000:]}")
    recorded, plain, count = json.loads(done.stdout.splitlines()[-1])
    # Ratios of neighbors in time, not a ratio of medians: slow drift of the machine cancels.
    ratio = median([ours / theirs for ours, theirs in zip(recorded, plain, strict=True)])
    return [
        Row(
            "a capture that records the values of expressions, over the same capture without",
            ratio,
            LIMIT,
            detail=f"{median(recorded):.2f} s against {median(plain):.2f} s, {count:,} expressions",
        )
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
