"""The application of `foretell serve`: predictions, curves, plans and fits over HTTP."""
