"""Running jobs alone or together: a small process of its own starts, watches and ends them."""
