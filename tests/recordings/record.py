"""Record torch's own trace of `subject.py`, for the pure tests of the trace reader.

    python tests/recordings/record.py

writes `torch-<version>/trace.log.gz` and `torch-<version>/made.json` beside itself: torch's version, the device, the
command. It needs the standard library and torch alone. Paths are made neutral: `/subject.py`, `/torch/...`.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    import torch  # noqa: PLC0415 - only to name what was recorded

    with tempfile.TemporaryDirectory() as folder:
        subject = HERE / "subject.py"
        environment = {**os.environ, "TORCH_TRACE": folder}
        subprocess.run([sys.executable, str(subject)], env=environment, check=True, capture_output=True)
        logs = sorted(Path(folder).glob("*.log"))
        text = "".join(log.read_text(encoding="utf-8") for log in logs)
    for name, neutral in (
        (str(subject), "/subject.py"),
        (str(Path(torch.__file__).parent), "/torch"),
        (str(Path(sys.prefix)), "/python"),
        (str(Path(sys.base_prefix)), "/python"),
    ):
        text = text.replace(name, neutral)
    kept = _without_chromium_events(text)
    version = ".".join(torch.__version__.split(".")[:2])
    out = HERE / f"torch-{version}"
    out.mkdir(exist_ok=True)
    (out / "trace.log.gz").write_bytes(gzip.compress(kept.encode("utf-8"), mtime=0))
    entries = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "command": "python tests/recordings/record.py",
    }
    (out / "made.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{out}: {len(kept)} characters\n")


def _without_chromium_events(text: str) -> str:
    """Half of a log is timeline events of 30 kinds; three are enough to read past."""
    out, dropping, seen = [], False, 0
    for line in text.splitlines(keepends=True):
        if not line.startswith("\t"):
            is_event = '"chromium_event"' in line
            seen += is_event
            dropping = is_event and seen > 3
        if not dropping:
            out.append(_without_settings(line) if '"compilation_metrics"' in line[:200] else line)
    return "".join(out)


def _without_settings(line: str) -> str:
    """Metrics repeat every setting of torch in each compile, folders of this machine among them."""
    head, brace, rest = line.partition("{")
    record = json.loads(brace + rest)
    metrics = record["compilation_metrics"]
    record["compilation_metrics"] = {
        key: value for key, value in metrics.items() if not key.endswith("_config")
    }
    return f"{head}{json.dumps(record)}\n"


if __name__ == "__main__":
    main()
