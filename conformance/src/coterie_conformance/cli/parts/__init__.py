"""The parts of `coterie-conformance compare`: what each runs, in which order, and how it is reported."""
