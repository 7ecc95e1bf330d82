"""Working out where events go: relay lists, and the plans made from them."""
