"""Pictures: one file per kind, drawn with matplotlib in colors that the page decides."""
