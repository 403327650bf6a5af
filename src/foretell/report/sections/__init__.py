"""The sections of a report, one file for each group of questions that a reader has."""
