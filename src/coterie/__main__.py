"""`python -m coterie` is `coterie`."""

from coterie.program import main

if __name__ == "__main__":
    main()
