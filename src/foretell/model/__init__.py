"""The model stage: a campaign and a dataset in, a validated, saved predictor out."""
