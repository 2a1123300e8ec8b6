"""The names of other systems on our engine. Sits on top; nothing imports it."""
