"""What every stage does with files: journals, claims, whole writes, checked text, complaints."""
