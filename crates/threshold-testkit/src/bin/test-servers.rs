//! The servers of one run of the tests: started once, shared by all.
//!
//! Prints where they are, as the variables of the environment that the tests look for, then `ready`, and runs until
//! its input ends.

use std::io::{Read as _, Write as _};

use threshold_testkit::servers::{Postgres, Redis, RedisCluster, Workerd};

fn main() {
    std::thread::scope(|scope| {
        let postgres = scope.spawn(Postgres::start);
        let cluster = scope.spawn(RedisCluster::start);
        let workerd = scope.spawn(Workerd::timed);
        let (redis, durable) = (Redis::start(), Redis::durable());
        let postgres = postgres.join().expect("Postgres starts");
        let cluster = cluster.join().expect("the Redis Cluster starts");
        let workerd = workerd.join().expect("workerd starts");
        let lines = format!(
            "THRESHOLD_TEST_POSTGRES={}\nTHRESHOLD_TEST_REDIS={}\nTHRESHOLD_TEST_REDIS_DURABLE={}\n\
             THRESHOLD_TEST_REDIS_CLUSTER={}\nTHRESHOLD_TEST_WORKERD={}\nready\n",
            postgres.url(),
            redis.url(),
            durable.url(),
            cluster.url(),
            workerd.url(),
        );
        let mut out = std::io::stdout().lock();
        out.write_all(lines.as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
        // What it says does not matter, only that it ends.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    });
}
