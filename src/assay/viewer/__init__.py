"""See a run: a page on this machine, or one file that opens anywhere.

filters   what to show, in a line
index     the rows as a table in SQLite
base      the tables of an index
shown     what the page shows, as plain data
shelf     Shelf: the runs of a page, with what people said about them
app       the page over HTTP
report    the page as one file
files     the page itself, in the folder `page`
"""
