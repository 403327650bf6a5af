"""The sequence-to-sequence model: from traces of jobs alone to the trace of them together."""
