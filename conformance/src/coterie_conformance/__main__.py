"""`python -m coterie_conformance` is `coterie-conformance`."""

from coterie_conformance.program import main

if __name__ == "__main__":
    main()
