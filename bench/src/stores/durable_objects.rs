//! Our store in Durable Objects against a Worker whose objects answer the same to everybody and write nothing, both in
//! workerd on this machine.
//!
//! The plain way has as many requests on their way as our store may have. A request of ours carries many decisions; how one
//! decision for each request compares is measured as well.

use std::rc::Rc;
use std::time::{Duration, Instant};

use threshold_store::DurableObjectsStore;
use threshold_testkit::servers::Workerd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::callers::{Load, Ours, secret};
use super::{Cell, Contender, Flow};
use crate::Outcome;
use crate::servers::places::Folder;

/// Requests on their way: as many as our store has at most.
const CONNECTIONS: usize = 64;
const CALLERS: usize = 1_000;
const SHARDS: usize = 128;

/// A batch of one step to a window that nobody fills.
const BATCH: &str = r#"{"keys":["0123456789abcdef0123456789abcdef"],"batches":[[1,[2,0,0,1,4503599627370495,86400000000,0]]]}"#;

pub(super) fn cells(_: &Folder, quick: bool) -> Outcome<Vec<Cell>> {
    let keys = if quick { 1_000 } else { 10_000 };
    let runtime = Rc::new(Runtime::new()?);
    let (ours, plain) = (Rc::new(Workerd::start()), Rc::new(Workerd::constant()));
    let mut cells = Vec::new();
    for (keys, shards) in [(1, 1), (keys, SHARDS)] {
        let store = open(&ours, &Load::of(keys), &runtime)?;
        store.warm()?;
        let constant = Asked::new(&plain, shards, "", &runtime);
        cells.push(Cell {
            name: format!("durable objects, {keys} keys in {shards} objects, {CALLERS} in flight"),
            contenders: vec![
                store.contender("threshold", CALLERS),
                constant.contender("a constant from an object"),
            ],
            bounds: [0.5, 1.0],
        });
    }
    let each = Asked::new(&ours, 1, BATCH, &runtime).contender("one decision for each request");
    let constant = Asked::new(&plain, 1, "", &runtime).contender("a constant from an object");
    let name = format!("durable objects, one key, one decision for each request, {CONNECTIONS} in flight");
    cells.push(Cell { name, contenders: vec![each, constant], bounds: [0.2, 0.5] });
    Ok(cells)
}

/// Our store.
fn open(server: &Rc<Workerd>, load: &Load, runtime: &Rc<Runtime>) -> Outcome<Rc<Ours<DurableObjectsStore>>> {
    // Patience, because this is about throughput.
    let url = format!("{}?timeout=60000", server.url());
    let store = runtime.block_on(DurableObjectsStore::open(&url, &secret(), None))?;
    Ours::new(store, load, (runtime, Rc::clone(server) as _), |store| store.stats().calls)
}

/// A Worker that is asked the same again and again, on connections that stay open.
struct Asked {
    server: Rc<Workerd>,
    runtime: Rc<Runtime>,
    /// A request to each object.
    requests: Vec<String>,
}

impl Asked {
    fn new(server: &Rc<Workerd>, shards: usize, body: &str, runtime: &Rc<Runtime>) -> Self {
        let request = |shard: usize| {
            let length = body.len();
            format!(
                "POST /v1/judge?shard={shard} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            )
        };
        let requests = (0..shards).map(request).collect();
        Self { server: Rc::clone(server), runtime: Rc::clone(runtime), requests }
    }

    fn contender(self, name: &str) -> Contender {
        Contender { name: name.to_owned(), run: Box::new(move |time| self.run(time)) }
    }

    fn run(&self, time: Duration) -> Outcome<Flow> {
        let (port, begun) = (self.server.port(), Instant::now());
        let answered: usize = self.runtime.block_on(async {
            let mut all = JoinSet::new();
            for connection in 0..CONNECTIONS {
                let requests = self.requests.clone();
                all.spawn(async move {
                    let (mut stream, mut answered) = (TcpStream::connect(("127.0.0.1", port)).await?, 0);
                    stream.set_nodelay(true)?;
                    while begun.elapsed() < time {
                        let turn = (connection + answered * CONNECTIONS) % requests.len();
                        stream.write_all(requests[turn].as_bytes()).await?;
                        answer(&mut stream).await?;
                        answered += 1;
                    }
                    Ok(answered)
                });
            }
            all.join_all().await.into_iter().sum::<Result<usize, std::io::Error>>()
        })?;
        Ok(Flow { rate: answered as f64 / begun.elapsed().as_secs_f64(), trips: 1.0 })
    }
}

/// Reads one answer, which says that it worked and how long it is.
async fn answer(stream: &mut TcpStream) -> std::io::Result<()> {
    let (mut bytes, mut read) = ([0; 4096], 0);
    loop {
        let more = stream.read(&mut bytes[read..]).await?;
        let wrong =
            |what: &str| std::io::Error::other(format!("{what}: {:?}", String::from_utf8_lossy(&bytes)));
        if more == 0 {
            return Err(wrong("the answer ended too early"));
        }
        read += more;
        let text = String::from_utf8_lossy(&bytes[..read]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if !head.starts_with("HTTP/1.1 200") || body.contains("\"charged\":[0]") {
            return Err(wrong("it was refused"));
        }
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        if body.len() >= length.ok_or_else(|| wrong("no length"))? {
            return Ok(());
        }
    }
}
