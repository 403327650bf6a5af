"""Co-runs, for users: profiles of jobs alone, when jobs end together, and which to put together."""
