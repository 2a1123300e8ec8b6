"""The names of other systems on our engine. Sits on top; nothing imports it."""

strict = True
"""Whether a score of ours is kept where that of the other system is wrong; False gives theirs (docs/how-to/migrate.md)."""
