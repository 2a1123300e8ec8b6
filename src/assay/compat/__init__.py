"""The names of other systems on our engine. Sits below the command line alone; nothing else imports it."""

strict = True
"""Whether a score of ours is kept where that of the other system is wrong; False gives theirs (docs/how-to/migrate.md)."""
