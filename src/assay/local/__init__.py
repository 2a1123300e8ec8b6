"""The local engine: a model on this machine, with no key and no network."""
