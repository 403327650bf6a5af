"""Automatic mode: a table and a target in, an ensemble of members with passports out."""
