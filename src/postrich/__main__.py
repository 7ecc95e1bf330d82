"""`python -m postrich` is the command `postrich`."""

from postrich.doors.cli import main

main()
