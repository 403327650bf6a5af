"""Reports: results in, tables and pictures out, as one file; nothing is fitted here."""
