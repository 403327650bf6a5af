"""What a worker answers: predictions, curves and plans, as JSON or CSV."""
