"""What configurations can be: the values of a column, and expressions of columns."""
