"""Advice: the next runs worth paying for."""
