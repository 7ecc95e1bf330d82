"""Routing: lists, plans, names and copies, with relays on loopback."""
