-- The store of choices. Each version is a step from the one before; a new store takes all of them.

-- version 1
CREATE TABLE device (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL,            -- the facts that level 2 needs to hold, as a run prints them
  gpu TEXT,                        -- marketing name, in no key
  driver INTEGER NOT NULL,         -- API version; 0: unknown
  libraries TEXT NOT NULL,         -- names and versions as loaded: a JSON object, or ''
  capability INTEGER NOT NULL,     -- compute capability: 90; 0: unknown
  multiprocessors INTEGER NOT NULL,
  extra TEXT,                      -- members of an imported record that this version does not know
  UNIQUE (device, driver, libraries, capability, multiprocessors)
);
CREATE TABLE choice (
  id INTEGER PRIMARY KEY,
  device INTEGER NOT NULL REFERENCES device (id),
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  executable TEXT NOT NULL,        -- identity of what measured it, where the kind's key holds it; else ''
  mode TEXT NOT NULL,
  value TEXT NOT NULL,             -- JSON
  measured TEXT,
  tool TEXT,
  reason TEXT,
  ahead REAL,
  bits INTEGER NOT NULL,           -- 0 unknown, 1 neutral, 2 moves
  executable_bytes INTEGER NOT NULL,
  executable_modified INTEGER NOT NULL,
  extra TEXT,
  UNIQUE (device, kind, key, executable, mode)
);
CREATE TABLE candidate (
  choice INTEGER NOT NULL REFERENCES choice (id) ON DELETE CASCADE,
  place INTEGER NOT NULL,          -- in the heuristic's order
  value TEXT NOT NULL,             -- JSON
  state INTEGER NOT NULL,          -- 0 measured, 1 rejected, 2 out of memory, 3 failed
  samples TEXT NOT NULL,           -- nanoseconds: a JSON array
  PRIMARY KEY (choice, place)
) WITHOUT ROWID;

-- version 2
ALTER TABLE candidate ADD COLUMN probe TEXT; -- digest of its output on the probe's input, 16 digits
CREATE TABLE rejected (
  device INTEGER NOT NULL REFERENCES device (id),
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,             -- JSON
  PRIMARY KEY (device, kind, key, value)
) WITHOUT ROWID;
CREATE TABLE cost (
  device INTEGER NOT NULL REFERENCES device (id),
  key TEXT NOT NULL,
  time_ns INTEGER NOT NULL,
  PRIMARY KEY (device, key)
) WITHOUT ROWID;
