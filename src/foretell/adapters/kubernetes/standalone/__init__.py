"""A scheduler of its own: it places the pods that name it, and binds them."""
