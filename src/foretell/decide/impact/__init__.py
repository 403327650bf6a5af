"""Impact: how much each setting changes a result, and what tuning which of them reaches."""
