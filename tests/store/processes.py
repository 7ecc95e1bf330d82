"""Other processes that use the same store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import postrich


def run_python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process with this Postrich, running `script`."""
    roots = [str(Path(root).parent) for root in postrich.__path__] + [str(Path.cwd())]
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
    )
