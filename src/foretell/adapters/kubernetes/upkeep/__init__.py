"""What runs beside a live scheduler: records of completed pods, and maintenance of models."""
