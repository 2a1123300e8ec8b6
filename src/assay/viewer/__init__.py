"""See a run: a page on this machine, or one file that opens anywhere.

page_server  serve_page: the page over HTTP
page_export  write_report: the page as one file; the page itself is in the folder `page`
page_data    what the page shows, as plain data
viewed_runs  the runs of a page, with what people said about them
row_index    the rows of a run as a table in SQLite
filters      what to show of it, in a line
"""
