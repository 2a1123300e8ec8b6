-- The rows of one run as the page looks for them, made anew. Whoever changes it raises FORMAT in row_index.py.
DROP TABLE IF EXISTS rows;
DROP TABLE IF EXISTS texts;
DROP TABLE IF EXISTS upto;
DROP TABLE IF EXISTS own_criteria;

CREATE TABLE rows (
    number INTEGER PRIMARY KEY,
    place INTEGER,
    example TEXT,
    sample INTEGER,
    task TEXT,
    score REAL,
    reward REAL,
    scored INTEGER,
    errors TEXT,
    seconds REAL,
    cost REAL,
    preview TEXT,
    disagreement REAL,
    labelled INTEGER,
    verdicts TEXT -- an object of JSON: what each criterion comes to, by its name
);
CREATE INDEX by_score ON rows (score, number);
CREATE UNIQUE INDEX by_example ON rows (example, sample);
CREATE TABLE texts (place INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE upto (place INTEGER, signature TEXT);
CREATE TABLE own_criteria (number INTEGER PRIMARY KEY, name TEXT, tags TEXT);
