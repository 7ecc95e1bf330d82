"""What things are: frozen values without behaviour beyond their own consistency."""
