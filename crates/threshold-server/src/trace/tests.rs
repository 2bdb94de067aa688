use super::*;

fn tracer(ratio: f64, room: usize) -> (Arc<Tracer>, mpsc::Receiver<Box<Finished>>) {
    let (queue, arrivals) = mpsc::channel(room);
    (Arc::new(Tracer::new(queue, ratio)), arrivals)
}

fn request(traceparent: Option<&'static str>) -> Request<()> {
    let mut request = Request::builder().uri("/").header("tracestate", "a=1");
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    request.body(()).unwrap()
}

const TRACED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNTRACED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[test]
fn a_trusted_proxy_says_whether_a_request_is_traced() {
    let (none, _none) = tracer(0.0, 1);
    let trace = none.begin(&mut request(Some(TRACED)), (true, false)).unwrap();
    assert_eq!(trace.about.context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
    assert_eq!(trace.about.context.parent, Some(0xb7ad_6b71_6920_3331));
    assert_eq!(trace.about.state.as_ref().unwrap(), "a=1");
    let (all, _all) = tracer(1.0, 1);
    let mut untraced = request(Some(UNTRACED));
    assert!(all.begin(&mut untraced, (true, false)).is_none());
    assert_eq!(untraced.headers()[TRACEPARENT], UNTRACED);
    assert_eq!(untraced.headers()[TRACESTATE], "a=1");
}

#[test]
fn what_a_stranger_says_of_traces_is_replaced() {
    let (all, _all) = tracer(1.0, 1);
    let mut stranger = request(Some(TRACED));
    let trace = all.begin(&mut stranger, (false, false)).unwrap();
    assert!(trace.about.context.parent.is_none() && trace.about.state.is_none());
    assert!(!stranger.headers().contains_key(TRACESTATE) && !stranger.headers().contains_key(TRACEPARENT));
    let (none, _none) = tracer(0.0, 1);
    let mut stranger = request(Some(TRACED));
    assert!(none.begin(&mut stranger, (false, false)).is_none());
    let handed_on = Context::read(&stranger.headers()[TRACEPARENT]).unwrap();
    assert!(!handed_on.sampled && !stranger.headers().contains_key(TRACESTATE));
}

#[test]
fn about_as_many_are_traced_as_the_ratio_says() {
    let (some, _some) = tracer(0.25, 1);
    let traced = (0..4_000).filter(|_| some.first().sampled).count();
    assert!((800..1_200).contains(&traced), "{traced} of 4,000");
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (all, mut arrivals) = tracer(1.0, 2);
    for _ in 0..5 {
        drop(all.begin(&mut request(None), (false, false)));
    }
    assert_eq!(all.dropped(), [("queue", 3), ("collector", 0)]);
    let finished = arrivals.try_recv().unwrap();
    assert!(finished.found.answered.is_none() && finished.ended >= finished.about.begun);
}
