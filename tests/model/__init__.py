"""What things are: the consistency of values, without any behaviour around them."""
