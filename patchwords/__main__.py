"""`python -m patchwords`."""

from patchwords.cli import main

main()
