"""The measure stage: a sweep file says what to run, and a table of runs comes out."""
