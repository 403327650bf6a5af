"""Onefold search: hyperparameters, settings of the system and the deployment, all at once."""
