-- The user's own documentation, cut into passages, and the ledger of a prompt that was handed out. Local: none of it travels.

CREATE TABLE documents (                    -- files as they were when added
    name       TEXT PRIMARY KEY,            -- as listed; adding it again replaces it
    digest     TEXT NOT NULL CHECK (length(digest) = 64),  -- sha256 of the file's bytes
    size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
    added_at   TEXT NOT NULL
) STRICT;

CREATE TABLE passages (                     -- pieces of a document, small enough for a prompt
    seq      INTEGER PRIMARY KEY,
    document TEXT NOT NULL REFERENCES documents (name) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    heading  TEXT NOT NULL,
    text     BLOB NOT NULL,                 -- ztext
    UNIQUE (document, position)
) STRICT;

CREATE VIRTUAL TABLE passage_words USING fts5 (   -- words of every passage, found by its seq; split as in node_words
    heading, text, tokenize = 'porter unicode61 remove_diacritics 2'
);

ALTER TABLE asks ADD COLUMN ledger BLOB;    -- zjson: one record per item offered to the prompt; NULL: not kept
