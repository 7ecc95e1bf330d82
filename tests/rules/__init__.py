"""The pure decisions: tables and properties, without clock, chance or socket."""
