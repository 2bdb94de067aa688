//! One sample of each format, as its document says it is written, told by what is in it.

use threshold_foresight::logs::{Format, Options};

use crate::logs::support::{Seen, micros, read, read_all, source};

/// Reads a log whose format is told right and in which every line is a request, or a comment.
fn told(format: Format, text: &str) -> Vec<Seen> {
    let read = read(text);
    assert_eq!(read.formats, [Some(format)]);
    assert_eq!((read.counts.all_broken(), read.counts.out_of_time.count), (0, 0), "{:?}", read.counts);
    read.requests
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn combined() {
    let requests = told(
        Format::Combined,
        concat!(
            "192.0.2.1 - anna [16/Nov/2026:21:42:51 +0100] \"POST /a?b=c HTTP/1.1\" 201 12 \"https://example.com/\" \"curl/8\"\n",
            "2001:db8::1 - a [b] c [16/Nov/2026:20:42:51 +0000] \"GET /\\x22 HTTP/2.0\" 200 0 \"-\" \"a \\\"b\\\" \\\\\"\r\n",
            "::ffff:192.0.2.9 - - [16/Nov/2026:20:42:52 +0000] \"GET / HTTP/1.0\" - - \"-\" \"-\" \"203.0.113.9, 10.0.0.1\"",
        ),
    );
    let first = Seen {
        method: "POST".to_owned(),
        status: Some(201),
        agent: Some("curl/8".to_owned()),
        user: Some("anna".to_owned()),
        headers: owned(&[("referer", "https://example.com/")]),
        ..Seen::get("20:42:51", "192.0.2.1", "/a?b=c")
    };
    let second = Seen {
        status: Some(200),
        agent: Some("a \"b\" \\".to_owned()),
        user: Some("a [b] c".to_owned()),
        ..Seen::get("20:42:51", "2001:db8::1", "/\"")
    };
    let third = Seen {
        headers: owned(&[("x-forwarded-for", "203.0.113.9, 10.0.0.1")]),
        ..Seen::get("20:42:52", "192.0.2.9", "/")
    };
    assert_eq!(requests, [first, second, third]);
}

#[test]
fn common_and_with_a_host_before_it() {
    let line = "192.0.2.1 - - [6/Nov/2026:20:42:51 +0000] \"GET http://example.com/a HTTP/1.1\" 200 5";
    let requests = told(Format::Common, line);
    assert_eq!((requests[0].target.as_str(), requests[0].host.as_deref()), ("/a", Some("example.com")));
    let line =
        "192.0.2.80:80 2001:db8::2 - - [16/Nov/2026:20:42:51 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\"";
    let requests = told(Format::VhostCombined, line);
    assert_eq!(
        (requests[0].client.to_string().as_str(), requests[0].host.as_deref()),
        ("2001:db8::2", Some("192.0.2.80"))
    );
}

#[test]
fn nginx_json() {
    let requests = told(
        Format::NginxJson,
        concat!(
            r#"{"time_iso8601":"2026-11-16T20:42:51+00:00","msec":"1794861771.250","remote_addr":"192.0.2.1","remote_user":"anna","#,
            r#""request":"POST /a?b=\"c\" HTTP/1.1","status":"201","request_length":"77","http_user_agent":"cur\u006C\/8 \uD83D\uDE00","#,
            r#""http_host":"example.com","http_x_plan":"gold","http_referer":""}"#,
            "\n",
            r#"{ "time_local": "16/Nov/2026:20:42:52 +0000", "remote_addr": "192.0.2.2", "request_method": "GET", "#,
            r#""uri": "/a", "args": "b=c", "status": 200, "upstream": [1, {"a": "}"}], "host": "example.org" }"#,
        ),
    );
    let first = Seen {
        method: "POST".to_owned(),
        host: Some("example.com".to_owned()),
        bytes: Some(77),
        status: Some(201),
        agent: Some("curl/8 😀".to_owned()),
        user: Some("anna".to_owned()),
        headers: owned(&[("x-plan", "gold")]),
        ..Seen::get("20:42:51.25", "192.0.2.1", "/a?b=\"c\"")
    };
    let second = Seen {
        host: Some("example.org".to_owned()),
        status: Some(200),
        ..Seen::get("20:42:52", "192.0.2.2", "/a?b=c")
    };
    assert_eq!(requests, [first, second]);
}

#[test]
fn caddy() {
    let requests = told(
        Format::Caddy,
        concat!(
            r#"{"level":"info","ts":1794861771.5241024,"logger":"http.log.access","msg":"handled request","request":{"#,
            r#""remote_ip":"10.0.0.1","remote_port":"1234","client_ip":"2001:db8::1","proto":"HTTP/2.0","method":"GET","#,
            r#""host":"example.com","uri":"/a?b","headers":{"User-Agent":["curl/8"],"X-Plan":["gold","red"],"Accept":[]}},"#,
            r#""bytes_read":3,"user_id":"anna","duration":0.001,"size":9,"status":200,"resp_headers":{"Server":["Caddy"]}}"#,
            "\n",
            r#"{"level":"info","ts":"2026-11-16T20:42:52Z","request":{"remote_addr":"192.0.2.2:999","method":"GET","uri":"/"}}"#,
        ),
    );
    let first = Seen {
        host: Some("example.com".to_owned()),
        bytes: Some(3),
        status: Some(200),
        agent: Some("curl/8".to_owned()),
        user: Some("anna".to_owned()),
        headers: owned(&[("x-plan", "gold")]),
        ..Seen::get("20:42:51.524102", "2001:db8::1", "/a?b")
    };
    assert_eq!(requests, [first, Seen::get("20:42:52", "192.0.2.2", "/")]);
}

#[test]
fn envoy() {
    let requests = told(
        Format::Envoy,
        concat!(
            "[2026-11-16T20:42:51.310Z] \"POST /api/v1/\" 200 locations HTTP/2\" 204 - 154 0 226 100 \"203.0.113.9, 192.0.2.1\" ",
            "\"say \"hi\" \"there\"\" \"cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2\" \"example.com\" \"tcp://10.0.2.1:80\"\n",
            "[2026-11-16T20:42:52.000Z] \"GET / HTTP/1.1\" 0 DC 0 0 1 - \"192.0.2.2\" \"-\" \"-\" \"-\" \"-\"\n",
        ),
    );
    let first = Seen {
        method: "POST".to_owned(),
        host: Some("example.com".to_owned()),
        bytes: Some(154),
        status: Some(204),
        agent: Some("say \"hi\" \"there\"".to_owned()),
        headers: owned(&[
            ("x-forwarded-for", "203.0.113.9, 192.0.2.1"),
            ("x-request-id", "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2"),
        ]),
        ..Seen::get("20:42:51.31", "192.0.2.1", "/api/v1/\" 200 locations")
    };
    let second = Seen {
        bytes: Some(0),
        headers: owned(&[("x-forwarded-for", "192.0.2.2")]),
        ..Seen::get("20:42:52", "192.0.2.2", "/")
    };
    assert_eq!(requests, [first, second]);
}

#[test]
fn haproxy() {
    let requests = told(
        Format::Haproxy,
        concat!(
            "Nov 16 20:42:51 lb haproxy[14389]: 192.0.2.1:33317 [16/Nov/2026:20:42:51.655] http-in~ static/srv1 ",
            "10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {example.com|a b} {} \"GET /a#22b HTTP/1.1\"\n",
            "::1:443 [16/Nov/2026:20:42:52.001] in in/<NOSRV> -1/-1/-1/-1/0 503 0 - - SC-- 1/1/0/0/0 0/0 \"GET https://example.com/a HTTP/2.0\"\n",
        ),
    );
    let first = Seen { status: Some(200), ..Seen::get("20:42:51.655", "192.0.2.1", "/a\"b") };
    let second = Seen {
        host: Some("example.com".to_owned()),
        status: Some(503),
        ..Seen::get("20:42:52.001", "::1", "/a")
    };
    assert_eq!(requests, [first, second]);
    let options = Options { ahead_secs: 3600, ..Options::default() };
    let line = "192.0.2.1:1 [16/Nov/2026:21:42:51.655] a b/c 1/1/1/1/1 200 1 - - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\"";
    let read = read_all(vec![source("a", line)], options).unwrap();
    assert_eq!(read.requests[0].micros, micros("20:42:51.655"));
}

#[test]
fn alb() {
    let requests = told(
        Format::Alb,
        concat!(
            "https 2026-11-16T20:42:51.186641Z app/my-balancer/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.086 0.048 0.037 ",
            "200 200 310 57 \"GET https://www.example.com:443/a?b HTTP/1.1\" \"curl/7.46.0 \\\"x\\\"\" ECDHE TLSv1.2 ",
            "arn:aws:elasticloadbalancing:us-east-2:123:targetgroup/t/73e2 \"Root=1-58337281\" \"www.example.com\" \"arn\" 1 ",
            "2026-11-16T20:42:51.100000Z \"authenticate,forward\" \"-\" \"-\" \"10.0.0.1:80\" \"200\" \"-\" \"-\" TID_1\n",
            "h2 2026-11-16T20:42:52.000000Z app/b/5 2001:db8::1:2817 - -1 -1 -1 503 - 0 337 \"GET http://example.com:8080/ HTTP/2.0\" ",
            "\"-\" - - - \"Root=1\" \"-\" \"-\" - 2026-11-16T20:42:52.000000Z \"-\" \"-\" \"-\" \"-\" \"-\" \"-\" \"-\"\n",
        ),
    );
    let first = Seen {
        host: Some("www.example.com".to_owned()),
        bytes: Some(310),
        status: Some(200),
        agent: Some("curl/7.46.0 \"x\"".to_owned()),
        ..Seen::get("20:42:51.186641", "192.0.2.1", "/a?b")
    };
    let second = Seen {
        host: Some("example.com:8080".to_owned()),
        bytes: Some(0),
        status: Some(503),
        ..Seen::get("20:42:52", "2001:db8::1", "/")
    };
    assert_eq!(requests, [first, second]);
}

#[test]
fn cloudfront() {
    let named = "#Version: 1.0\n#Fields: date time c-ip cs-method x-host-header cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs-bytes\n";
    let line =
        "2026-11-16\t20:42:51\t192.0.2.1\tGET\texample.com\t/a%20b\t200\t-\tMozilla/5.0%20(X11)\tc=d\t23\n";
    let seen = Seen {
        host: Some("example.com".to_owned()),
        bytes: Some(23),
        status: Some(200),
        agent: Some("Mozilla/5.0 (X11)".to_owned()),
        ..Seen::get("20:42:51", "192.0.2.1", "/a%20b?c=d")
    };
    assert_eq!(told(Format::CloudFront, &format!("{named}{line}")), [seen]);
    // Without its first lines, in the order that all have.
    let whole = "2026-11-16\t20:42:51\tLHR5-P2\t1045619\t2001:db8::1\tGET\td1.cloudfront.net\t/a\t304\thttps://example.com/\tcurl\t-\t-\tHit\tid==\texample.com\thttps\t23\t0.001\t-\tTLSv1.3";
    let requests = told(Format::CloudFront, whole);
    assert_eq!(requests[0].host.as_deref(), Some("example.com"));
    assert_eq!(requests[0].headers, owned(&[("referer", "https://example.com/")]));
}

#[test]
fn cloudflare() {
    let line = |time: &str| {
        format!(
            r#"{{"ClientIP":"192.0.2.1","ClientRequestHost":"example.com","ClientRequestMethod":"GET","ClientRequestURI":"/a?b","ClientRequestUserAgent":"curl/8","ClientRequestBytes":900,"EdgeEndTimestamp":{time},"EdgeResponseStatus":403,"EdgeStartTimestamp":{time},"RequestHeaders":{{"x-plan":"gold"}},"RayID":"3a"}}"#
        )
    };
    let times = ["\"2026-11-16T20:42:51Z\"", "1794861771", "1794861771000000000"];
    let requests = told(Format::Cloudflare, &times.map(line).join("\n"));
    let seen = Seen {
        host: Some("example.com".to_owned()),
        bytes: Some(900),
        status: Some(403),
        agent: Some("curl/8".to_owned()),
        headers: owned(&[("x-plan", "gold")]),
        ..Seen::get("20:42:51", "192.0.2.1", "/a?b")
    };
    assert_eq!(requests, [seen.clone(), seen.clone(), seen]);
}

#[test]
fn any_json_by_a_map() {
    let fields = "time=when,client=from.ip,method=verb,target=url,user=auth.sub,tenant=auth.org,account=login,header.x-plan=plan";
    let options = Options { fields: fields.parse().unwrap(), ..Options::default() };
    let text = concat!(
        r#"{"when":1794861771000,"from":{"ip":"192.0.2.1","ip6":null},"verb":"PUT","url":"/a","auth":{"sub":"anna","org":"acme","x":{}},"login":"a@b","plan":"gold","status":200}"#,
        "\n",
        r#"{"when":1794861772000,"from.ip":"192.0.2.1","url":"https://example.com/b","auth":null}"#,
    );
    let read = read_all(vec![source("a", text)], options).unwrap();
    assert_eq!((read.formats[0], read.counts.all_broken()), (Some(Format::Json), 0));
    let first = Seen {
        method: "PUT".to_owned(),
        status: Some(200),
        user: Some("anna".to_owned()),
        tenant: Some("acme".to_owned()),
        account: Some("a@b".to_owned()),
        headers: owned(&[("x-plan", "gold")]),
        ..Seen::get("20:42:51", "192.0.2.1", "/a")
    };
    let second = Seen { host: Some("example.com".to_owned()), ..Seen::get("20:42:52", "192.0.2.1", "/b") };
    assert_eq!(read.requests, [first, second]);
}

#[test]
fn any_json_by_the_names_that_are_usual() {
    let text = r#"{"timestamp":"2026-11-16T20:42:51Z","ip":"192.0.2.1","method":"GET","path":"/a","status":200,"tenant":"acme"}"#;
    let requests = told(Format::Json, text);
    let seen = Seen {
        status: Some(200),
        tenant: Some("acme".to_owned()),
        ..Seen::get("20:42:51", "192.0.2.1", "/a")
    };
    assert_eq!(requests, [seen]);
}

#[test]
fn a_table_by_names_and_by_numbers() {
    let text = "Time;Client;Method;Target;User_Agent\n2026-11-16T20:42:51Z;192.0.2.1;GET;/a;\"say \"\"hi\"\"; bye\"\nTime;Client;Method;Target;User_Agent\n";
    let requests = told(Format::Csv, text);
    let seen = Seen::get("20:42:51", "192.0.2.1", "/a");
    assert_eq!(requests, [Seen { agent: Some("say \"hi\"; bye".to_owned()), ..seen.clone() }]);
    for first in ["when,who,what\n", ""] {
        let options = Options { fields: "time=1,client=2,request=3".parse().unwrap(), ..Options::default() };
        let text = format!("{first}1794861771,192.0.2.1,GET /a HTTP/1.1\n");
        let read = read_all(vec![source("a", text)], options).unwrap();
        assert_eq!((read.formats[0], read.requests), (Some(Format::Csv), vec![seen.clone()]));
        assert_eq!(read.counts.comments, u64::from(!first.is_empty()));
    }
}
