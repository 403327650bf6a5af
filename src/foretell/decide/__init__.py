"""The decide stage: predictors and a question in, an answer with its reasons out."""
