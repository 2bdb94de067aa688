use super::super::watch::State;
use super::*;
use crate::outbound::{Resolve, Url};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use threshold::Timestamp;
use threshold::policy::{AlertMetric, AlertSeverity, WebhookFormat};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn alert(id: &str) -> Alert {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    let (metric, severity, state) = (AlertMetric::Refused, AlertSeverity::Warning, State::Firing);
    let id = id.to_owned();
    Alert {
        id,
        node: Arc::default(),
        metric,
        severity,
        state,
        value: 7,
        threshold: 5,
        window: None,
        since: at,
        at,
        reminder: false,
    }
}

fn hook(url: &str) -> Hook {
    let url = Url::read(url).unwrap();
    Hook { url, format: WebhookFormat::Json, secret: None, least: AlertSeverity::Warning }
}

fn tools(allowed: &[&str], resolve: Resolve) -> Tools {
    let guard = Guard::new(allowed.iter().copied(), resolve);
    let retry = Retry { attempts: 3, first: Duration::from_millis(2), most: Duration::from_millis(4) };
    Tools { retry, ..Tools::new(guard, &Arc::new(Log::new(false)), Arc::new(|| 0)) }
}

/// Answers connections with one text after the other, and says how many there were.
async fn answering(answers: &'static [&'static str]) -> (u16, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let number = std::mem::replace(&mut *counted.lock().unwrap(), 0) + 1;
            *counted.lock().unwrap() = number;
            let answer = answers[(number - 1).min(answers.len() - 1)];
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4_096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (port, asked)
}

const FINE: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
const ELSEWHERE: &str =
    "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
const WRONG: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n";

async fn delivered(answers: &'static [&'static str]) -> (Result<(), String>, usize) {
    let (port, asked) = answering(answers).await;
    let hook = hook(&format!("http://127.0.0.1:{port}/hook"));
    let done = deliver(&hook, None, &alert("many"), &tools(&["127.0.0.1"], crate::outbound::system())).await;
    let asked = *asked.lock().unwrap();
    (done, asked)
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_will_not_is_given_up() {
    assert_eq!(delivered(&[FINE]).await, (Ok(()), 1));
    assert_eq!(
        delivered(&[BROKEN, "", FINE]).await,
        (Ok(()), 3),
        "a connection that is lost is tried again, too"
    );
    let (done, asked) = delivered(&[BROKEN]).await;
    assert_eq!((asked, done.unwrap_err()), (3, "it answered 500; given up after 3 attempts".to_owned()));
    let (done, asked) = delivered(&[WRONG]).await;
    assert!(asked == 1 && done.unwrap_err().contains("404"));
    let (done, asked) = delivered(&[ELSEWHERE]).await;
    assert!(asked == 1 && done.unwrap_err().contains("redirects are not followed"));
    assert!(delivered(&[ENDLESS]).await.0.is_err(), "an answer that does not end is no answer");
}

/// A name that stands for a receiver once and for somebody else afterwards: each attempt resolves once, and goes to what was
/// looked at or nowhere.
#[tokio::test]
async fn a_name_that_is_bound_again_leads_nowhere_else() {
    let (port, asked) = answering(&[BROKEN, FINE]).await;
    let resolved = Arc::new(Mutex::new(0));
    let count = Arc::clone(&resolved);
    let resolve: Resolve = Arc::new(move |_| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let address: IpAddr = if *count == 1 { [127, 0, 0, 1].into() } else { [127, 0, 0, 2].into() };
        Box::pin(async move { Ok(vec![address]) })
    });
    let hook = hook(&format!("http://hooks.example.com:{port}/"));
    let done = deliver(&hook, None, &alert("many"), &tools(&["127.0.0.1"], resolve)).await;
    let why = done.unwrap_err();
    assert!(why.contains("127.0.0.2 is this machine"), "{why}");
    assert_eq!((*resolved.lock().unwrap(), *asked.lock().unwrap()), (2, 1));
}

#[tokio::test]
async fn a_line_takes_so_many_and_no_more() {
    // Whoever connects is kept waiting.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tools = tools(&["127.0.0.1"], crate::outbound::system());
    let mut courier = Courier::start(vec![hook(&format!("http://127.0.0.1:{port}/"))], tools);
    for number in 0..200 {
        courier.tell(&alert(&number.to_string()));
        tokio::task::yield_now().await;
    }
    let dropped = usize::try_from(courier.dropped).unwrap();
    assert!((200 - WAITING - 1..=200 - WAITING).contains(&dropped), "{dropped}");
}

#[test]
fn pauses_double_up_to_a_bound_and_differ() {
    let retry = Retry::default();
    let pause = |attempt, random| retry.pause(attempt, random).as_millis();
    assert_eq!(
        [pause(1, 0), pause(2, 0), pause(3, 0), pause(7, 0), pause(40, 0)],
        [500, 1_000, 2_000, 30_000, 30_000]
    );
    assert_ne!(pause(3, 0), pause(3, 1_000_000));
    for attempt in 1..20 {
        assert!(retry.pause(attempt, u64::MAX) <= retry.most);
    }
}
