"""The clients of the control API in other languages: what `clients/` has for each operation is generated from the table of
operations, and tests of each language's own ecosystem run by its own toolchain."""
