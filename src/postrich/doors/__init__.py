"""How work comes in and is looked at. Doors decide nothing about delivery."""
