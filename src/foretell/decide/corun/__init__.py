"""Co-runs: when jobs end that share a machine, and which to put together; only by contract."""
