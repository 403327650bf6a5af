"""Features: from the columns of a table to a matrix of numbers; one file per family."""
