"""The simulate stage: what would happen, played on made-up or recorded arrivals, by the seed."""
