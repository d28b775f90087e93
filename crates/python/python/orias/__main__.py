"""`python -m orias` is the command."""

from .command import main

main()
