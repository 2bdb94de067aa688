//! What a server is like, whether or not it can be used.

use threshold_core::{StoreError, Timestamp};
use tokio_postgres::{Client, Error};

use super::OLDEST;
use super::connect::Address;
use super::error::failed;
use super::migrate::{Part, other_secret};
use crate::check::Check;
use crate::open::SecretPair;

/// Looks at the server and at the tables of `part` there, and changes nothing.
pub(crate) async fn look_at(
    address: Result<Address, StoreError>,
    part: &Part,
    secrets: Option<SecretPair<'_>>,
) -> Vec<Check> {
    let address = match address {
        Ok(address) => address,
        Err(error) => return vec![Check::bad("address", error.to_string())],
    };
    let (client, wire) = match address.connect().await {
        Ok(connected) => connected,
        Err(error) => return vec![Check::bad("connection", error.to_string())],
    };
    let driving = tokio::spawn(wire.run());
    let checks = look(&client, &address, part, secrets).await;
    drop(client);
    // The connection ends with its client; how does not matter.
    let _ = driving.await;
    checks.unwrap_or_else(|error| vec![Check::bad("server", failed("look at the server")(error).to_string())])
}

async fn look(
    client: &Client,
    address: &Address,
    part: &Part,
    secrets: Option<SecretPair<'_>>,
) -> Result<Vec<Check>, Error> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
        pg_is_in_recovery(), current_setting('fsync'),
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let row = client.query_one(sql, &[]).await?;
    let micros = u64::try_from(row.get::<_, i64>(4)).unwrap_or_default();
    let (tables, kept) = tables(client, address, part).await?;
    let mut checks = vec![
        version(row.get(0), row.get(1)),
        role(row.get(2)),
        disk(row.get(3)),
        Check::clock(Timestamp::from_micros(micros)),
        tables,
    ];
    let other = || other_secret(address, part).to_string();
    checks.extend(secrets.map(|secrets| Check::secret(kept, secrets, other)));
    Ok(checks)
}

fn version(number: i32, text: &str) -> Check {
    match number < OLDEST {
        true => Check::bad(
            "version",
            format!("it is Postgres {text}; {} is the oldest that will do: upgrade it", OLDEST / 10_000),
        ),
        false => Check::good("version", format!("Postgres {text}")),
    }
}

fn role(in_recovery: bool) -> Check {
    match in_recovery {
        true => Check::bad("role", "it is a standby, which cannot be written to; name the primary"),
        false => Check::good("role", "it is a primary"),
    }
}

fn disk(fsync: &str) -> Check {
    match fsync {
        "on" => Check::good("disk", "what is committed is on the disk"),
        _ => Check::doubtful("disk", "fsync is off: a crash may lose or break everything; set `fsync = on`"),
    }
}

/// Which version the tables have, and whether the user may make or change them; and the fingerprint that is there.
async fn tables(client: &Client, address: &Address, part: &Part) -> Result<(Check, Option<u128>), Error> {
    let schema = address.schema();
    let there = "SELECT to_regclass($1 || '.parts') IS NOT NULL,
        coalesce(has_schema_privilege(to_regnamespace($1), 'CREATE'),
                 has_database_privilege(current_database(), 'CREATE'))";
    let row = client.query_one(there, &[&schema]).await?;
    if !row.get::<_, bool>(0) {
        return Ok((no_tables(schema, row.get(1)), None));
    }
    let sql = format!("SELECT version, secret FROM \"{schema}\".parts WHERE name = $1");
    let newest = i32::try_from(part.steps.len()).unwrap_or(i32::MAX);
    let Some(row) = client.query_opt(&sql, &[&part.name]).await? else {
        let said = format!("none of a {} yet; they are made at the first start", part.name);
        return Ok((Check::good("tables", said), None));
    };
    // What has another length is no fingerprint of ours.
    let kept = row.get::<_, Vec<u8>>(1).try_into().map_or(0, u128::from_be_bytes);
    let check = match row.get::<_, i32>(0) {
        version if version > newest => {
            Check::bad("tables", "a newer version of Threshold wrote them; run that version")
        }
        version if version < newest => {
            let said =
                format!("version {version} of {newest}: migrations are pending, and run at the next start");
            Check::doubtful("tables", said)
        }
        version => Check::good("tables", format!("version {version}, up to date")),
    };
    Ok((check, Some(kept)))
}

fn no_tables(schema: &str, may_make: bool) -> Check {
    match may_make {
        true => Check::good("tables", format!("none in schema {schema}; they are made at the first start")),
        false => Check::bad(
            "tables",
            format!(
                "none in schema {schema}, and this user may not make them; have an administrator run `CREATE SCHEMA \
                 {schema} AUTHORIZATION` that user"
            ),
        ),
    }
}
