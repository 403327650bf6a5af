"""What a worker answers: predictions, curves and descriptions of models, as JSON."""
