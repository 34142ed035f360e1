use super::*;

const BYTES: u64 = 500;

fn conn(opened: bool, begun_at_ms: u64) -> Metered {
    Metered {
        opened,
        listener: 1,
        peer: 0,
        begun_at_ms,
        bytes: BYTES,
    }
}

fn names(hosts: &[&str]) -> Arc<PeerNames> {
    let mut names = PeerNames::default();
    hosts.iter().for_each(|host| names.add_host(host));
    Arc::new(names)
}

fn peer(meter: &Meter, name: &str) -> PeerCounters {
    let peers = meter.peers(0);
    let found = peers.iter().find(|peer| &*peer.name == name);
    found
        .unwrap_or_else(|| panic!("{name} in {peers:?}"))
        .clone()
}

#[test]
fn connections_are_counted_as_they_come_and_go() {
    let mut meter = Meter::default();
    let (one, two) = (conn(false, 1_000), conn(false, 3_000));
    meter.enter(one);
    meter.enter(two);
    let both = meter.of_listener(1, 10_000);
    assert_eq!(
        (both.open, both.age_ms_sum, both.bytes),
        (2, 16_000, 2 * BYTES)
    );
    assert_eq!(both.ages.iter().sum::<u64>(), 2);
    meter.leave(one);
    let left = meter.of_listener(1, 10_000);
    assert_eq!((left.open, left.age_ms_sum, left.bytes), (1, 7_000, BYTES));
    meter.leave(two);
    assert_eq!(meter.of_listener(1, 10_000), ConnectionFigures::default());
    assert_eq!(meter.of_listener(9, 10_000), ConnectionFigures::default());
}

#[test]
fn a_peer_that_proves_its_name_is_counted_by_it() {
    let mut meter = Meter::default();
    meter.rename(names(&["gw.example.net"]), std::iter::empty());
    let mut one = conn(false, 0);
    meter.enter(one);
    assert_eq!(peer(&meter, OTHER_PEERS).accepted.connections.open, 1);
    one.peer = meter.prove(one, &["else.example".into(), "gw.example.net".into()]);
    assert_eq!(peer(&meter, "gw.example.net").accepted.connections.open, 1);
    assert!(meter.peers(0).iter().all(|peer| &*peer.name != OTHER_PEERS));
    meter.tally(one.peer, one.opened).full[0] += 1;
    meter.leave(one);
    let gateway = peer(&meter, "gw.example.net");
    assert_eq!(gateway.accepted.connections.open, 0);
    assert_eq!(gateway.accepted.tls.full_total(), 1);
}

#[test]
fn figures_follow_their_names_through_a_reload() {
    let mut meter = Meter::default();
    meter.rename(names(&["a.example", "b.example"]), std::iter::empty());
    let ip = IpAddr::from([192, 0, 2, 1]);
    let mut conns = ["a.example", "b.example"].map(|name| Metered {
        peer: meter.peer_of(true, Some(name), ip),
        ..conn(true, 0)
    });
    for conn in conns {
        meter.enter(conn);
        meter.tally(conn.peer, conn.opened).full[0] += 1;
    }
    let entries = conns.iter_mut().map(|conn| (*conn, &mut conn.peer));
    meter.rename(names(&["new.example", "b.example"]), entries);
    for (name, open) in [("b.example", 1), (OTHER_PEERS, 1)] {
        let found = peer(&meter, name).opened;
        assert_eq!((found.connections.open, found.tls.full_total()), (open, 1));
    }
    assert_eq!(meter.of_opened(0).open, 2);
    for conn in conns {
        meter.leave(conn);
    }
    assert_eq!(peer(&meter, "b.example").opened.connections.open, 0);
    assert_eq!(meter.of_opened(0).open, 0);
}
