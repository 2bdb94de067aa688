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

# The same files as before: others may have come meanwhile.
told = [file for file in files if "/events-" in file]
counted = [file for file in files if "/events-" not in file]
by_duckdb = 0
if counted:
    query = "SELECT sum(requests) FROM read_parquet(?) WHERE limit_id = '*'"
    by_duckdb = int(duckdb.connect().execute(query, [counted]).fetchall()[0][0] or 0)
assert by_duckdb == requests, (by_duckdb, requests)
if told:
    query = "SELECT count(*) FROM read_parquet(?)"
    assert duckdb.connect().execute(query, [told]).fetchall()[0][0] == sum(events.values())

strikes = [row for row in details if row["event"] == "abuse_escalation"]
print(json.dumps({
    "files": len(files),
    "requests": requests,
    "counts": rows_by_limit,
    "events": events,
    "limits": sorted({row["limit_id"] for row in strikes}),
    "subjects": len({row["subject"] for row in strikes}),
}))
