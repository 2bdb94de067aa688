"""Reads every Parquet file below a folder, by pyarrow and by DuckDB, and says what is in there. A broken file is an error."""

import collections
import glob
import json
import sys

import duckdb
import pyarrow.parquet as parquet

folder = sys.argv[1]
files = sorted(glob.glob(f"{folder}/**/*.parquet", recursive=True))
requests, events, details = 0, collections.Counter(), []
rows_by_limit = collections.Counter()
for file in files:
    table = parquet.read_table(file)
    if file.rsplit("/", 1)[1].startswith("events-"):
        for row in table.to_pylist():
            events[row["event"]] += 1
            detail = json.loads(row["detail"])
            assert detail["event"] == row["event"], row
            assert row["at"].tzinfo is not None and row["at"].year >= 2024, row
            details.append(row)
    else:
        rows = table.to_pylist()
        requests += sum(row["requests"] for row in rows if row["limit_id"] == "*")
        for row in rows:
            assert (row["layer"] is None) == (row["limit_id"] == "*"), row
            rows_by_limit[f"{row['limit_id']} {row['layer'] or '-'} {row['subject'].split(':')[0]}"] += row["requests"]

by_duckdb = 0
if any("/events-" not in file for file in files):
    query = f"SELECT sum(requests) FROM read_parquet('{folder}/**/[0-9]*.parquet') WHERE limit_id = '*'"
    by_duckdb = int(duckdb.connect().execute(query).fetchall()[0][0] or 0)
assert by_duckdb == requests, (by_duckdb, requests)
if events:
    query = f"SELECT count(*) FROM read_parquet('{folder}/**/events-*.parquet')"
    assert duckdb.connect().execute(query).fetchall()[0][0] == sum(events.values())

strikes = [row for row in details if row["event"] == "abuse_escalation"]
print(json.dumps({
    "files": len(files),
    "requests": requests,
    "counts": rows_by_limit,
    "events": events,
    "limits": sorted({row["limit_id"] for row in strikes}),
    "subjects": len({row["subject"] for row in strikes}),
}))
