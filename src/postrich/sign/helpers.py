"""Helper processes of our own: Python that works beside us, told through its stdin.

Promises: it knows no secret of the environment, and Ctrl-C is for us alone, who end it.
"""

from __future__ import annotations

import asyncio
import os
import sys


async def start_helper(program: str) -> asyncio.subprocess.Process:
    """Start it; closing its stdin must end it."""
    told = {name: text for name, text in os.environ.items() if not name.startswith("POSTRICH_")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**told, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )
