"""Hypothesis for this folder: a busy machine must not look like a fault."""

from hypothesis import settings

settings.register_profile("postrich", deadline=None, database=None)
settings.load_profile("postrich")
