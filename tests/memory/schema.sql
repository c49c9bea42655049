CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);

CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,                 -- created_by, written_by (versions of KOPE), origin (id of this file's own)
    value TEXT NOT NULL
) STRICT;

CREATE TABLE origins (                      -- who made a row: this file's own runs, or a file that was taken over
    id         TEXT PRIMARY KEY CHECK (length(id) = 32),
    label      TEXT NOT NULL DEFAULT '',
    trust      TEXT NOT NULL CHECK (trust IN ('own', 'trusted', 'quarantined', 'distrusted')),
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (                     -- one run of the loop
    id           TEXT PRIMARY KEY,
    origin_id    TEXT NOT NULL REFERENCES origins (id),
    settings_key TEXT NOT NULL,             -- equal for runs that may resume each other
    info         TEXT NOT NULL CHECK (json_valid(info)),
    kope_version TEXT NOT NULL,
    started_at   TEXT NOT NULL,
    ended_at     TEXT,
    end_reason   TEXT,
    process      TEXT                       -- local: the process that works on it, to tell a dead one from a living
) STRICT;

CREATE INDEX sessions_by_key ON sessions (settings_key);

CREATE TABLE tasks (                        -- operators, as they were when first tried
    digest     TEXT PRIMARY KEY,            -- over everything that decides a verdict
    origin_id  TEXT NOT NULL REFERENCES origins (id),
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    tags       TEXT NOT NULL CHECK (json_valid(tags)),
    definition TEXT NOT NULL CHECK (json_valid(definition)),
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX tasks_by_name ON tasks (name);

CREATE TABLE calls (                        -- local: answered model calls of sessions that go on, so that none is paid twice
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,               -- sha256 over endpoint, request and place in the run
    created_at TEXT NOT NULL,
    record     BLOB NOT NULL,               -- zjson
    PRIMARY KEY (session_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE candidates (                   -- kernel sources
    id         TEXT PRIMARY KEY CHECK (length(id) = 64),      -- sha256 of the source's UTF-8 bytes
    size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
    source     BLOB NOT NULL                                  -- ztext
) STRICT;

CREATE TABLE prompts (                      -- prompts as they were sent
    id         TEXT PRIMARY KEY CHECK (length(id) = 64),      -- sha256 of the text's UTF-8 bytes
    template   TEXT NOT NULL,
    tokens     INTEGER NOT NULL CHECK (tokens >= 0),
    text       BLOB NOT NULL                                  -- ztext
) STRICT;

CREATE TABLE asks (                         -- prompts handed out, to be answered by anybody
    id          TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL REFERENCES sessions (id),
    task_digest TEXT NOT NULL REFERENCES tasks (digest),
    prompt_id   TEXT NOT NULL REFERENCES prompts (id),
    parent_id   TEXT,                       -- attempt the answer is to start from
    used        TEXT NOT NULL CHECK (json_valid(used)),
    created_at  TEXT NOT NULL
, ledger BLOB) STRICT;

CREATE TABLE attempts (                     -- one candidate tried on one task; narrow, the texts are next door
    seq            INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    origin_id      TEXT NOT NULL REFERENCES origins (id),
    session_id     TEXT NOT NULL REFERENCES sessions (id),
    iteration      INTEGER NOT NULL,
    task_digest    TEXT NOT NULL REFERENCES tasks (digest),
    task_name      TEXT NOT NULL,
    candidate_id   TEXT REFERENCES candidates (id),           -- NULL: the proposer gave no source
    parent_id      TEXT,                                      -- attempt it started from; may live in another file
    prompt_id      TEXT REFERENCES prompts (id),
    proposer       TEXT NOT NULL,
    move           TEXT NOT NULL,
    traits         TEXT NOT NULL CHECK (json_valid(traits)),
    used           TEXT NOT NULL CHECK (json_valid(used)),    -- ids of nodes that were in its context
    tokens         INTEGER NOT NULL,
    stage          TEXT NOT NULL CHECK (stage IN ('propose', 'compile', 'run', 'verify', 'profile')),
    verdict        TEXT NOT NULL CHECK (verdict IN ('failed', 'screened', 'verified')),
    time_kind      TEXT NOT NULL CHECK (time_kind IN ('modelled', 'measured')),
    typical_us     REAL CHECK (typical_us > 0),               -- geometric mean over cases of the median time
    speedup        REAL CHECK (speedup >= 0),
    step_ratio     REAL NOT NULL CHECK (step_ratio >= 0),
    promoted       INTEGER NOT NULL CHECK (promoted IN (0, 1)),
    repeated       INTEGER NOT NULL CHECK (repeated IN (0, 1)),
    wall_s         REAL NOT NULL,
    target         TEXT NOT NULL,
    hardware       TEXT NOT NULL,
    toolchain      TEXT NOT NULL,
    evaluator      TEXT NOT NULL,
    created_at     TEXT NOT NULL,
    content_digest TEXT NOT NULL CHECK (length(content_digest) = 64), original_digest TEXT CHECK (length(original_digest) = 64),  -- sha256 over all of the attempt, see docs
    CHECK (promoted = 0 OR verdict = 'verified')
) STRICT;

CREATE INDEX attempts_by_candidate ON attempts (candidate_id, task_digest);

CREATE INDEX attempts_by_task ON attempts (task_digest, hardware);

CREATE INDEX attempts_by_session ON attempts (session_id);

CREATE TABLE attempt_texts (                -- what is wide about an attempt
    attempt_id  TEXT PRIMARY KEY REFERENCES attempts (id) ON DELETE CASCADE,
    thought     TEXT NOT NULL,
    plan        TEXT NOT NULL CHECK (json_valid(plan)),
    diagnostics TEXT NOT NULL CHECK (json_valid(diagnostics)),
    details     BLOB NOT NULL               -- zjson: log, reason, reply, calls, steps, evidence, counters, ledger
) STRICT;

CREATE TABLE case_results (                 -- every case of every attempt with every raw sample
    attempt_id  TEXT NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    case_id     TEXT NOT NULL,
    passed      INTEGER CHECK (passed IN (0, 1)),             -- NULL: not compared
    error_ratio REAL,                                         -- largest violation / tolerance
    bound_us    REAL,
    duration_us TEXT NOT NULL CHECK (json_valid(duration_us)),
    PRIMARY KEY (attempt_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE journals (                     -- append-only: one Markdown entry per attempt
    seq        INTEGER PRIMARY KEY,
    attempt_id TEXT NOT NULL UNIQUE REFERENCES attempts (id) ON DELETE CASCADE,
    markdown   TEXT NOT NULL
) STRICT;

CREATE TABLE nodes (                        -- experiences; narrow, so that a scan of the vectors is one pass
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    origin_id   TEXT NOT NULL REFERENCES origins (id),
    kind        TEXT NOT NULL CHECK (kind IN ('attempt', 'digest', 'fact')),
    attempt_id  TEXT UNIQUE REFERENCES attempts (id) ON DELETE CASCADE,
    task_name   TEXT NOT NULL,
    move        TEXT NOT NULL,
    traits      TEXT NOT NULL CHECK (json_valid(traits)),
    stage       TEXT NOT NULL CHECK (stage IN ('propose', 'compile', 'run', 'verify', 'profile')),
    works       INTEGER NOT NULL CHECK (works IN (0, 1)),     -- verified right
    label       TEXT NOT NULL CHECK (label IN ('', 'effective', 'partial', 'ineffective', 'negative')),
    speedup     REAL CHECK (speedup >= 0),
    step_ratio  REAL NOT NULL CHECK (step_ratio >= 0),
    downstream  REAL NOT NULL,                                -- derived: bounded score over the lineage below
    confidence  REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    hardware    TEXT NOT NULL,                                -- where its times are evidence of speed
    bottleneck  TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    revision    INTEGER NOT NULL,                             -- local: counts up with every change of a row
    embedder    TEXT,                                         -- names weights, pooling and dtype
    embedding   BLOB, retired INTEGER CHECK (retired IN (0, 1)),                                         -- float16 little-endian, unit length
    CHECK ((embedding IS NULL) = (embedder IS NULL)),
    CHECK (embedding IS NULL OR (length(embedding) > 0 AND length(embedding) % 2 = 0)),
    CHECK ((kind = 'attempt') = (attempt_id IS NOT NULL))
) STRICT;

CREATE INDEX nodes_by_revision ON nodes (revision);

CREATE TABLE node_texts (                   -- decision: what was done and why; lesson: what came of it
    node_id  TEXT PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    title    TEXT NOT NULL,
    decision TEXT NOT NULL,
    lesson   TEXT NOT NULL
) STRICT;

CREATE TABLE edges (                        -- kind is a verb: src led_to dst, src was used by dst, ...
    seq       INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    origin_id TEXT NOT NULL REFERENCES origins (id),
    src       TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    dst       TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    kind      TEXT NOT NULL CHECK (kind IN ('led_to', 'used', 'contrasts', 'contradicts', 'distilled_from', 'rewound')),
    embedder  TEXT,
    embedding BLOB, propensity REAL                         -- local, of used: chance with which it was recalled
    CHECK (propensity > 0 AND propensity <= 1),
    UNIQUE (src, kind, dst),
    CHECK (src <> dst),
    CHECK ((embedding IS NULL) = (embedder IS NULL)),
    CHECK (embedding IS NULL OR (length(embedding) > 0 AND length(embedding) % 2 = 0))
) STRICT;

CREATE UNIQUE INDEX edges_one_parent ON edges (dst) WHERE kind = 'led_to';

CREATE INDEX edges_by_dst ON edges (dst);

CREATE TABLE edge_texts (                   -- for led_to: the move, what was changed and why
    edge_id TEXT PRIMARY KEY REFERENCES edges (id) ON DELETE CASCADE,
    text    TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE node_words USING fts5 (
    text, move, code, diagnostics,
    content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

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

CREATE TABLE 'passage_words_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'passage_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE 'passage_words_content'(id INTEGER PRIMARY KEY, c0, c1);

CREATE TABLE 'passage_words_docsize'(id INTEGER PRIMARY KEY, sz BLOB);

CREATE TABLE 'passage_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;

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

