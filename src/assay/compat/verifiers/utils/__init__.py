"""`verifiers.utils`."""
