-- What lets recall read only what one question needs. Derived and local: made from nodes, edges and attempts, at any time again.

CREATE TABLE scenes (                        -- operator and structure: alike to any other operator in the same measure
    seq         INTEGER PRIMARY KEY,
    task_digest TEXT NOT NULL,               -- '' for lessons and facts
    task_name   TEXT NOT NULL,
    traits      TEXT NOT NULL,
    UNIQUE (task_digest, task_name, traits)
) STRICT;

CREATE TABLE places (                        -- where each experience belongs, and what its attempt says of those it used
    seq     INTEGER PRIMARY KEY,             -- of the node
    scene   INTEGER NOT NULL,
    purpose TEXT,                            -- draft, repair, refine; NULL: no attempt
    helped  INTEGER                          -- whether the attempt came to what it was for
) STRICT;
CREATE INDEX places_by_scene ON places (scene);

CREATE TABLE tallies (                       -- attempts, and those that came to what they were for
    origin_id TEXT NOT NULL,
    purpose   TEXT NOT NULL,
    hardware  TEXT NOT NULL,                 -- '' where it does not matter
    attempts  INTEGER NOT NULL,
    helped    INTEGER NOT NULL,
    PRIMARY KEY (origin_id, purpose, hardware)
) STRICT, WITHOUT ROWID;

CREATE TABLE codes (                         -- signs of vectors, a range of rows together, so that all of them are read at once
    part      TEXT NOT NULL,                 -- nodes, or edges
    last_seq  INTEGER NOT NULL,              -- the range of rows of that table
    first_seq INTEGER NOT NULL,
    embedder  TEXT NOT NULL,                 -- '' when no row of the range has a vector
    dim       INTEGER NOT NULL,
    seqs      BLOB NOT NULL,                 -- node of each vector, int64 little-endian
    signs     BLOB NOT NULL,                 -- one bit a component, in whole words of 64
    PRIMARY KEY (part, last_seq, embedder, dim)
) STRICT;
