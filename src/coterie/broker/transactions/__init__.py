"""The transaction coordinators, of a broker alone and of a cluster's, and the verification of transactional requests."""
