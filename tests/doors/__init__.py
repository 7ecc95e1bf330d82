"""Doors, seen from outside: what a person or a program at the command line would notice."""
