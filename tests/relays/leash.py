"""What the relay subprocesses share: a leash to the process that started them.

Promises that a relay dies with its launcher, even one ended by SIGKILL: the launcher holds the
other end of the relay's stdin, and the kernel closes it for the dead.
"""

import os
import sys
import threading


def hold_leash() -> None:
    """End this process at once when stdin closes."""
    threading.Thread(target=_exit_with_stdin, name="leash", daemon=True).start()


def _exit_with_stdin() -> None:
    # Not sys.stdin: its lock, held by this thread, would trip the interpreter's own exit.
    while os.read(0, 4096):
        pass
    os._exit(0)


def say_ready(url: str) -> None:
    """Tell the launcher that connections are answered from now on."""
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
