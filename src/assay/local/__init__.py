"""The local engine: a model on this machine, without a key or a network."""
