"""The names of other packages, implemented by ours. Nothing else in `assay` imports this."""

strict = True
"""True keeps our score where the other package's is wrong; False gives theirs (docs/how-to/migrate.md)."""
