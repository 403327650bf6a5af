"""Files: bounded reading, tables, typed descriptions, journals, locks and safe writing."""
