"""Counts the rows of usage and the events below a folder that name a subject, by pyarrow and by DuckDB; the events that tell of
its erasure come third."""

import glob
import json
import os
import sys

import duckdb
import pyarrow.parquet as parquet

folder, subject = sys.argv[1:]
usage = events = erasures = 0
# Listed once: the server goes on writing.
files = sorted(glob.glob(f"{folder}/**/*.parquet", recursive=True))
for file in files:
    for row in parquet.read_table(file).to_pylist():
        if "detail" not in row:
            usage += row["subject"] == subject
        elif subject in row["detail"] or row["subject"] == subject:
            tells = row["event"] == "subject_erased" or json.loads(row["detail"]).get("action", "").startswith("erase")
            erasures, events = erasures + tells, events + (not tells)

counted = [file for file in files if os.path.basename(file)[0].isdigit()]
if counted:
    query = "SELECT count(*) FROM read_parquet(?) WHERE subject = ?"
    by_duckdb = duckdb.connect().execute(query, [counted, subject]).fetchall()[0][0]
    assert by_duckdb == usage, (by_duckdb, usage)
print(json.dumps([usage, events, erasures]))
