"""Impact, for users: which settings matter, from a table of runs or a model; it uses both."""
