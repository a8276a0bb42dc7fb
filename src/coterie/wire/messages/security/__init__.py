"""SASL, SCRAM credentials, access control lists and delegation tokens."""
