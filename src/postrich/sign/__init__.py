"""Signing and checking signatures. Keys stay in here."""
