-- Distilled lessons, the chance with which an experience was recalled, what a person retired, and what was forgotten.
--
-- Digests, and the edges distilled_from, contrasts and contradicts, are made from attempts and their lineage by rule: the
-- same attempts give the same, in every file and whatever order they came in. They never travel.

ALTER TABLE nodes ADD COLUMN retired INTEGER CHECK (retired IN (0, 1));  -- local: a person's word; NULL: its record decides

ALTER TABLE edges ADD COLUMN propensity REAL                         -- local, of used: chance with which it was recalled
    CHECK (propensity > 0 AND propensity <= 1);

CREATE TABLE digests (                       -- derived: lessons; the evidence is where the edges distilled_from lead
    node_id   TEXT PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    rule      TEXT NOT NULL CHECK (rule IN ('gain', 'loss', 'failure', 'repair')),
    trigger   TEXT NOT NULL,                 -- the situation it is about
    rationale TEXT NOT NULL,                 -- why, in the words of the attempt that shows it best
    before    TEXT NOT NULL,                 -- code that was changed, and what it became
    after     TEXT NOT NULL
) STRICT;

CREATE TABLE forgotten (                     -- local: attempts that were forgotten and must not come back with a file
    attempt_id   TEXT PRIMARY KEY,
    forgotten_at TEXT NOT NULL
) STRICT;
