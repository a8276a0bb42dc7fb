"""Who a client is: the principal of a connection, and the exchanges of SASL as functions of bytes."""
