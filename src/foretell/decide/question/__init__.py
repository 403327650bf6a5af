"""The question: what can be chosen, what is asked for, and what it costs."""
