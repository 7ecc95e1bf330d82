"""Where work is kept: a port of domain verbs and its adapters."""
