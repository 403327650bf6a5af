"""Linear models: least squares with penalties, constraints or selection of terms."""
