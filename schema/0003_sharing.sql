-- Sharing between databases: which rows stand for fuller ones, what files disagree on, and which files were taken in.

-- The content_digest of the whole attempt, where this row is a copy that something was removed from; NULL: it is whole.
ALTER TABLE attempts ADD COLUMN original_digest TEXT CHECK (length(original_digest) = 64);

-- Every version of an attempt that files disagree on, the one in `attempts` among them. No version is believed: the attempt
-- and its experience belong to the origin `conflict` until a person decides.
CREATE TABLE conflicts (
    attempt_id     TEXT NOT NULL,
    content_digest TEXT NOT NULL CHECK (length(content_digest) = 64),
    origin_id      TEXT NOT NULL REFERENCES origins (id),
    document       BLOB NOT NULL,           -- zjson: all rows of the version, see docs/sharing.md
    PRIMARY KEY (attempt_id, content_digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE imports (                      -- local: files that were taken in
    file_digest TEXT PRIMARY KEY CHECK (length(file_digest) = 64),
    name        TEXT NOT NULL,
    origin_id   TEXT NOT NULL,              -- of the database that made the file
    imported_at TEXT NOT NULL,
    summary     TEXT NOT NULL CHECK (json_valid(summary))
) STRICT;
