//! A connection that is ready to work.

use threshold_core::StoreError;
use tokio_postgres::{Client, Statement};

use crate::postgres::connect::{Address, Wire};
use crate::postgres::error::failed;

const CONNECT: &str = "connect to the ledger";

/// A session never holds the lock of all writers for long: a node that is cut off in the middle lets go of it soon. A
/// server that is set to acknowledge before its disk has it is told otherwise; one that waits for more than that stays.
const PREPARE: &str = "
    SET idle_in_transaction_session_timeout = '5s';
    SET lock_timeout = '8s';
    SET statement_timeout = '9s';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');";

const ROW: &str = "class, key, number, version, whom, until, since, record::text";

/// A connection with its statements.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) lock: Statement,
    pub(super) last: Statement,
    pub(super) load: Statement,
    pub(super) load_of: Statement,
    pub(super) violations: Statement,
    pub(super) put: Statement,
    pub(super) dropped: Statement,
    pub(super) advance: Statement,
    pub(super) notify: Statement,
    pub(super) sweep: Statement,
}

impl Session {
    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        let (client, wire) = address.connect().await?;
        drive(wire);
        client.batch_execute(PREPARE).await.map_err(failed(CONNECT))?;
        let prepare = |sql: String| {
            let client = &client;
            async move { client.prepare(&sql).await }
        };
        let prepared = tokio::try_join!(
            prepare("SELECT last FROM ledger FOR UPDATE".to_owned()),
            prepare("SELECT last FROM ledger".to_owned()),
            prepare(format!(
                "SELECT {ROW} FROM ledger_rows
                    JOIN unnest($1::text[], $2::bytea[]) AS wanted (c, k) ON class = c AND key = k"
            )),
            prepare(format!(
                "SELECT {ROW} FROM ledger_rows
                    JOIN unnest($1::text[], $2::bytea[]) AS wanted (c, w) ON class = c AND whom = w"
            )),
            prepare(format!(
                "SELECT {ROW} FROM ledger_rows
                    WHERE class = 'violation' AND whom = $1 AND since >= $2 AND number < $3
                    ORDER BY number DESC LIMIT $4"
            )),
            prepare(PUT.to_owned()),
            prepare(
                "DELETE FROM ledger_rows USING unnest($1::text[], $2::bytea[]) AS gone (c, k)
                    WHERE class = c AND key = k"
                    .to_owned()
            ),
            prepare("UPDATE ledger SET last = $1".to_owned()),
            prepare("SELECT pg_notify($1, '')".to_owned()),
            prepare(
                "DELETE FROM ledger_rows WHERE class = $1 AND since <= $2 AND key IN
                    (SELECT key FROM ledger_rows WHERE class = $1 AND since <= $2 LIMIT $3)"
                    .to_owned()
            ),
        );
        let (lock, last, load, load_of, violations, put, dropped, advance, notify, sweep) =
            prepared.map_err(failed(CONNECT))?;
        Ok(Self { client, lock, last, load, load_of, violations, put, dropped, advance, notify, sweep })
    }
}

const PUT: &str = "
    INSERT INTO ledger_rows (class, key, number, version, whom, until, since, record)
    SELECT c, k, n, v, w, u, s, r::json
        FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[],
            $8::text[]) AS new (c, k, n, v, w, u, s, r)
    ON CONFLICT (class, key) DO UPDATE SET number = excluded.number, version = excluded.version,
        whom = excluded.whom, until = excluded.until, since = excluded.since, record = excluded.record";

/// The connection works as long as its client is there; if it fails, the client says so.
fn drive(wire: Wire) {
    tokio::spawn(async move {
        let _ = wire.run().await;
    });
}
