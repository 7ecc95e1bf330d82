"""What others may watch: notices of everything that happens."""
