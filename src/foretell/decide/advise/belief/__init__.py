"""What is believed of configurations, given a model, drawn laws, and the runs made."""
