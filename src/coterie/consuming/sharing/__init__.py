"""The consumer's side of a share group (KIP-932) as a machine: share sessions, acquired records, and acknowledgements."""
