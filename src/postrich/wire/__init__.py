"""Sockets to relays: the asyncio shell round the pure conversation."""
