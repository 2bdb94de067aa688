use super::*;

/// Asks from so many addresses in turn, `each` apart.
fn asked(recent: &Recent, requests: u32, clients: u32, each: Span) {
    for number in 0..requests {
        let client = IpAddr::from((0x0a00_0000 + number % clients).to_be_bytes());
        ask(recent, client, "/path?secret=1", Timestamp::from_micros(u64::from(number) * each.as_micros()));
    }
}

fn ask(recent: &Recent, client: IpAddr, path: &str, at: Timestamp) {
    let facts = Facts { peer: client, method: "GET", host: Some("a"), path, bytes: Some(7), headers: &() };
    let identity = Identity {
        client,
        tenant: Some("acme".into()),
        tenant_verified: true,
        tier: None,
        user: Some("alice".into()),
        user_kind: Some(UserKind::Cookie),
        doubts: Default::default(),
    };
    let (account, cost) = (None, NonZeroU64::new(3));
    let note = Note {
        facts: &facts,
        identity: &identity,
        account,
        cost,
        at: (at, at),
        ending: Ending::Warned,
        ipv6_prefix: 64,
    };
    recent.note(&note);
}

#[test]
fn what_is_remembered_is_what_was_asked() {
    let recent = Recent::new(10);
    asked(&recent, 1, 1, Span::SECOND);
    let reading = recent.read(Timestamp::default());
    assert_eq!((reading.one_in, reading.not_remembered), (1, 0));
    let [one] = &reading.asked[..] else { panic!("{reading:?}") };
    let (facts, identity) = (one.facts(), one.identity());
    assert_eq!((facts.method, facts.host, facts.path, facts.bytes), ("GET", Some("a"), "/path", Some(7)));
    assert_eq!((identity.tenant.as_deref(), identity.user.as_deref()), (Some("acme"), Some("alice")));
    assert_eq!((identity.client, identity.tier.as_deref()), (IpAddr::from([10, 0, 0, 0]), None));
    assert_eq!((identity.user_kind, identity.tenant_verified), (Some(UserKind::Cookie), true));
    assert_eq!((one.ending, one.cost, &one.account), (Ending::Warned, NonZeroU64::new(3), &None));
}

#[test]
fn the_oldest_make_room_by_number_by_bytes_and_by_age() {
    let recent = Recent::new(10);
    // So far apart that all clients stay.
    asked(&recent, 25, 25, Span::MINUTE);
    let now = Timestamp::from_micros(25 * Span::MINUTE.as_micros());
    let reading = recent.read(now);
    assert_eq!((reading.asked.len(), reading.one_in), (10, 1));
    assert_eq!(reading.asked[0].store.as_micros(), 15 * Span::MINUTE.as_micros());
    assert_eq!(recent.read(now.plus(Span::from_secs(55 * 60))).asked.len(), 5);
    let long = format!("/{}", "a".repeat(1_999));
    (0..10).for_each(|_| ask(&recent, IpAddr::from([10, 0, 0, 1]), &long, now));
    assert_eq!(recent.read(now).asked.len(), 1, "2,560 bytes are enough");
    let skipped = recent.skipped();
    ask(&recent, IpAddr::from([10, 0, 0, 1]), &"/".repeat(5_000), now);
    assert_eq!(recent.skipped(), skipped + 1);
}

#[test]
fn under_load_whole_clients_are_remembered() {
    let recent = Recent::new(1_000);
    // A hundred thousand a second of a thousand clients, each of them at times a second apart.
    asked(&recent, 400_000, 1_000, Span::from_micros(10));
    let reading = recent.read(Timestamp::from_micros(4_000_000));
    assert!(reading.one_in > 1, "{}", reading.one_in);
    assert!(reading.not_remembered > 0);
    // Whoever is remembered is remembered whole since the first of these.
    let mut each = std::collections::HashMap::<IpAddr, Vec<u64>>::new();
    for one in &reading.asked {
        each.entry(one.client()).or_default().push(one.store.as_micros());
    }
    for (client, times) in each {
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap == 10_000), "{client}: {gaps:?}");
    }
}
