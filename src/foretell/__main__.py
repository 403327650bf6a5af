"""`python -m foretell` is the `foretell` command."""

from foretell.cli import main

main()
