"""The engine: the stager readies jobs, lanes deliver them, the lifeline keeps all alive."""
