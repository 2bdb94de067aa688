//! What a server is like, whether or not it can be used.

use threshold_core::Timestamp;
use tokio_postgres::{Client, Error};

use super::connect::Address;
use super::error::failed;
use super::{OLDEST, STATES};
use crate::check::Check;

/// Looks at the server that `url` names, and changes nothing there.
pub(crate) async fn examine(url: &str) -> Vec<Check> {
    let address = match Address::parse(url) {
        Ok(address) => address,
        Err(error) => return vec![Check::bad("address", error.to_string())],
    };
    let (client, wire) = match address.connect().await {
        Ok(connected) => connected,
        Err(error) => return vec![Check::bad("connection", error.to_string())],
    };
    let driving = tokio::spawn(wire.run());
    let checks = look(&client, &address).await;
    drop(client);
    // The connection ends with its client; how does not matter.
    let _ = driving.await;
    checks.unwrap_or_else(|error| vec![Check::bad("server", failed("look at the server")(error).to_string())])
}

async fn look(client: &Client, address: &Address) -> Result<Vec<Check>, Error> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
        pg_is_in_recovery(), current_setting('fsync'),
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let row = client.query_one(sql, &[]).await?;
    let micros = u64::try_from(row.get::<_, i64>(4)).unwrap_or_default();
    Ok(vec![
        version(row.get(0), row.get(1)),
        role(row.get(2)),
        disk(row.get(3)),
        Check::clock(Timestamp::from_micros(micros)),
        tables(client, address).await?,
    ])
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

/// Which version the tables have, and whether the user may make or change them.
async fn tables(client: &Client, address: &Address) -> Result<Check, Error> {
    let schema = address.schema();
    let there = "SELECT to_regclass($1 || '.parts') IS NOT NULL,
        coalesce(has_schema_privilege(to_regnamespace($1), 'CREATE'),
                 has_database_privilege(current_database(), 'CREATE'))";
    let row = client.query_one(there, &[&schema]).await?;
    if !row.get::<_, bool>(0) {
        return Ok(match row.get(1) {
            true => {
                Check::good("tables", format!("none in schema {schema}; they are made at the first start"))
            }
            false => Check::bad(
                "tables",
                format!(
                    "none in schema {schema}, and this user may not make them; have an administrator run `CREATE \
                     SCHEMA {schema} AUTHORIZATION` that user"
                ),
            ),
        });
    }
    let sql = format!("SELECT version FROM \"{schema}\".parts WHERE name = $1");
    let found = client.query_opt(&sql, &[&STATES.name]).await?.map(|row| row.get::<_, i32>(0));
    let newest = i32::try_from(STATES.steps.len()).unwrap_or(i32::MAX);
    Ok(match found {
        Some(version) if version > newest => {
            Check::bad("tables", "a newer version of Threshold wrote them; run that version")
        }
        Some(version) if version < newest => {
            let said =
                format!("version {version} of {newest}: migrations are pending, and run at the next start");
            Check::doubtful("tables", said)
        }
        Some(version) => Check::good("tables", format!("version {version}, up to date")),
        None => Check::good("tables", "none of a store yet; they are made at the first start"),
    })
}
