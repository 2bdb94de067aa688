// The states of one object: in its database, and those lately used in memory as well.
//
// What is in memory is written in the same synchronous section that changes it, so it is never ahead of the database; and
// the runtime holds every answer back until what it rests on is durable. If anything fails, memory is dropped.

import { NONE } from "./cells.js";
import { Log, Permits } from "./lists.js";

// Without row numbers and without an index: every row that is written, and every entry of an index, is paid for.
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY, at INTEGER NOT NULL, first INTEGER NOT NULL, second INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS entries (
    key TEXT NOT NULL, at INTEGER NOT NULL, cost INTEGER NOT NULL, expires INTEGER NOT NULL,
    PRIMARY KEY (key, at)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS permits (
    key TEXT NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL, cost INTEGER NOT NULL,
    PRIMARY KEY (key, id)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
`;

// One statement for any number of rows, which come as one JSON text: a call for each would cost more than the row.
const READ_CELLS = `
  SELECT key, at, first, second FROM cells WHERE key IN (SELECT value FROM json_each(?))`;
const WRITE_CELLS = `
  INSERT INTO cells SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?) WHERE true
  ON CONFLICT (key) DO UPDATE SET at = excluded.at, first = excluded.first, second = excluded.second`;
const DROP_CELLS = "DELETE FROM cells WHERE key IN (SELECT value FROM json_each(?))";
const READ_LOG = "SELECT at, cost FROM entries WHERE key = ? ORDER BY at";
const WRITE_ENTRIES = `
  INSERT INTO entries SELECT ?, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) WHERE true
  ON CONFLICT (key, at) DO UPDATE SET cost = excluded.cost, expires = excluded.expires`;
const DROP_ENTRIES = "DELETE FROM entries WHERE key = ? AND at IN (SELECT value FROM json_each(?))";
const DROP_GONE = "DELETE FROM entries WHERE key = ? AND at <= ?";
const READ_PERMITS = "SELECT id, expires, cost FROM permits WHERE key = ? ORDER BY expires, id";
const WRITE_PERMITS = `
  INSERT INTO permits SELECT ?, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) WHERE true
  ON CONFLICT (key, id) DO UPDATE SET expires = excluded.expires, cost = excluded.cost`;
const DROP_PERMITS = "DELETE FROM permits WHERE key = ? AND id IN (SELECT value FROM json_each(?))";

// The most that is kept in memory: cells, and members of lists. An object has 128 MB.
const MOST_CELLS = 50_000;
const MOST_LISTED = 200_000;
// A page of a sweep, and how many keys of lists it looks at.
const PAGE = 1000;
// Behind every key.
const END = "~";

export class States {
  constructor(sql) {
    this.sql = sql;
    this.sql.exec(SCHEMA);
    this.forget();
  }

  // Drops what is in memory: the database has it all.
  forget() {
    this.cells = new Map();
    this.logs = new Map();
    this.permits = new Map();
    // The cells that have to be written, and the lists that were looked at: those may have to be.
    this.dirty = new Set();
    this.opened = new Map();
    // Members of all lists in memory.
    this.listed = 0;
  }

  note(name) {
    const [row] = this.sql.exec("SELECT value FROM notes WHERE name = ?", name);
    return row?.value;
  }

  setNote(name, value) {
    this.sql.exec("INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value);
  }

  // Reads the cells of many keys at once.
  load(keys) {
    const missing = keys.filter((key) => !this.cells.has(key));
    if (missing.length === 0) return;
    for (const key of missing) this.cells.set(key, NONE);
    for (const [key, at, first, second] of this.sql.exec(READ_CELLS, JSON.stringify(missing)).raw()) {
      this.cells.set(key, { at, first, second });
    }
  }

  cell(key) {
    return this.cells.get(key) ?? NONE;
  }

  setCell(key, cell) {
    this.cells.set(key, cell);
  }

  log(key) {
    let log = this.logs.get(key);
    if (!log) {
      log = new Log([...this.sql.exec(READ_LOG, key)]);
      this.logs.set(key, log);
    }
    this.opened.set(log, key);
    return log;
  }

  permitsOf(key) {
    let permits = this.permits.get(key);
    if (!permits) {
      permits = new Permits([...this.sql.exec(READ_PERMITS, key)]);
      this.permits.set(key, permits);
    }
    this.opened.set(permits, key);
    return permits;
  }

  // Writes everything that has changed; false if nothing has.
  flush() {
    let wrote = this.flushCells();
    for (const [list, key] of this.opened) {
      if (list.isDirty) wrote = list instanceof Log ? this.flushLog(key, list) : this.flushPermits(key, list);
      this.listed += list.size - list.counted;
      list.counted = list.size;
    }
    this.opened.clear();
    if (this.cells.size > MOST_CELLS || this.listed > MOST_LISTED) this.forget();
    return wrote;
  }

  flushCells() {
    if (this.dirty.size === 0) return false;
    const [kept, dropped] = [[], []];
    for (const key of this.dirty) {
      const { at, first, second } = this.cell(key);
      if (at === 0) dropped.push(key);
      else kept.push([key, at, first, second]);
    }
    if (kept.length > 0) this.sql.exec(WRITE_CELLS, JSON.stringify(kept));
    if (dropped.length > 0) this.sql.exec(DROP_CELLS, JSON.stringify(dropped));
    this.dirty.clear();
    return true;
  }

  flushLog(key, log) {
    if (log.gone !== null) this.sql.exec(DROP_GONE, key, log.gone);
    const kept = [];
    const dropped = new Set(log.touched);
    // What was touched is near the end.
    for (let i = log.entries.length - 1; i >= 0 && dropped.size > 0; i--) {
      const { at, cost } = log.entries[i];
      if (dropped.delete(at)) kept.push([at, cost, at + log.period]);
    }
    if (kept.length > 0) this.sql.exec(WRITE_ENTRIES, key, JSON.stringify(kept));
    if (dropped.size > 0) this.sql.exec(DROP_ENTRIES, key, JSON.stringify([...dropped]));
    log.touched.clear();
    log.gone = null;
    return true;
  }

  flushPermits(key, permits) {
    const held = permits.held.filter(({ id }) => permits.touched.delete(id));
    const kept = held.map(({ id, expires, cost }) => [id, expires, cost]);
    if (kept.length > 0) this.sql.exec(WRITE_PERMITS, key, JSON.stringify(kept));
    if (permits.touched.size > 0) this.sql.exec(DROP_PERMITS, key, JSON.stringify([...permits.touched]));
    permits.touched.clear();
    return true;
  }

  // Forgets all that is known of the keys.
  reset(keys) {
    const all = JSON.stringify(keys);
    for (const table of ["cells", "entries", "permits"]) {
      this.sql.exec(`DELETE FROM ${table} WHERE key IN (SELECT value FROM json_each(?))`, all);
    }
    for (const key of keys) {
      this.cells.delete(key);
      this.dirty.delete(key);
      for (const lists of [this.logs, this.permits]) {
        const list = lists.get(key);
        if (!list) continue;
        lists.delete(key);
        this.opened.delete(list);
        this.listed -= list.counted;
      }
    }
  }

  // Looks at one page of each table, from where the last one ended, and drops what is over by then. True if there may be
  // more; if not, the next one begins anew.
  sweep(now) {
    const ends = [this.sweepCells(now), this.sweepLists("entries", now), this.sweepLists("permits", now)];
    this.forget();
    const isOver = ends.every((end) => end === END);
    if (isOver) this.sql.exec("DELETE FROM notes WHERE name LIKE 'swept %'");
    return !isOver;
  }

  // A table that has come to its end waits there for the others.
  page(table) {
    const from = this.note(`swept ${table}`) ?? "";
    const keys = [...this.sql.exec(`SELECT key FROM ${table} WHERE key > ? ORDER BY key LIMIT ${PAGE}`, from).raw()];
    const to = keys.length === PAGE ? keys[PAGE - 1][0] : END;
    if (to !== from) this.setNote(`swept ${table}`, to);
    return { from, to, keys };
  }

  sweepCells(now) {
    const { from, to } = this.page("cells");
    this.sql.exec("DELETE FROM cells WHERE key > ? AND key <= ? AND at < ?", from, to, now);
    return to;
  }

  // A list goes as a whole or not at all: while its last member counts, the others say what time it has been.
  sweepLists(table, now) {
    const { to, keys } = this.page(table);
    for (const key of new Set(keys.flat())) {
      const [row] = this.sql.exec(`SELECT max(expires) AS last FROM ${table} WHERE key = ?`, key);
      if (row.last <= now) this.sql.exec(`DELETE FROM ${table} WHERE key = ?`, key);
    }
    return to;
  }

  isEmpty() {
    const [row] = this.sql.exec(
      "SELECT EXISTS (SELECT 1 FROM cells) + EXISTS (SELECT 1 FROM entries) + EXISTS (SELECT 1 FROM permits) AS any",
    );
    return row.any === 0;
  }
}
