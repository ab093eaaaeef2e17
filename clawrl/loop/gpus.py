"""The GPUs of this machine, asked without touching them."""

from __future__ import annotations

import subprocess

QUERY = ["nvidia-smi", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"]
TIMEOUT_S = 10.0
MIB_PER_GIB = 1024


def measured_gpus() -> dict[int, float]:
    """The memory (GiB) of each GPU by its index; empty where none answers.

    The driver's own tool is asked: torch would take some memory of every GPU to find out.
    """
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[int, float] = {}
    for line in done.stdout.splitlines():
        index, _, mib = line.partition(",")
        # A GPU that shares the machine's memory says "[N/A]".
        if index.strip().isdigit() and mib.strip().isdigit():
            found[int(index)] = int(mib) / MIB_PER_GIB
    return found
