//! Every command, by the bytes of its reply.

use super::common::{Reply, Wire, ok, serve};

#[test]
fn redis_cell_is_answered_as_it_answers() {
    let server = serve("");
    let mut wire = Wire::to(server.resp);
    assert_eq!(wire.ask("CL.THROTTLE user:1 2 1 3600").numbers(), [0, 3, 2, -1, 3600]);
    assert_eq!(wire.ask("PING"), Reply::Simple("PONG".to_owned()));
    assert_eq!(wire.ask("SELECT 0"), ok());
}
