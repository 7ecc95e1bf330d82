"""The store's conformance suite: what every adapter of the port must do, and what is its own."""
