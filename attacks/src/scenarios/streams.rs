//! Connections that do not read, do not finish, or say something odd.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::phone::PATIENCE;
use crate::scenario::{Scale, Scenario, Tally, beside};
use crate::stream::Stream;
use crate::target::Setup;
use crate::wire::Draft;
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "stream.slow-readers",
        tries: "Connections that ask without end and never read an answer, beside one that does.",
        through: "a connection of somebody else that is closed or gets no answer; memory that stays.",
        setup: |_| {},
        not_kamailio: None,
        run: slow_readers,
    },
    Scenario {
        name: "stream.slow-writers",
        tries: "Connections that begin a message with a large Content-Length and leave it at that.",
        through: "a connection of somebody else that gets no answer; memory that stays.",
        setup: |_| {},
        not_kamailio: None,
        run: slow_writers,
    },
    Scenario {
        name: "stream.odd-message",
        tries: "A trusted peer's connection brings a header of 9,000 bytes, a bad CSeq and a missing Call-ID in messages whose lengths are right, and good requests between them.",
        through: "a connection that is closed, or a good request without an answer.",
        setup: |setup: &mut Setup| setup.own_configuration = true,
        not_kamailio: None,
        run: odd_message,
    },
];

fn options(world: &World) -> Draft {
    Draft::new(
        "OPTIONS",
        "sip:x@x.invalid",
        &format!("sip:{}", world.server.place()),
    )
}

fn no_streams() -> String {
    "it has no TCP address".to_owned()
}

/// Whether a connection is served.
fn is_served(stream: &mut Stream, world: &World) -> bool {
    stream.ask(PATIENCE, &options(world)).is_some()
}

fn slow_readers(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let tcp = world.server.tcp.ok_or_else(no_streams)?;
    let mut innocent = Stream::tcp(tcp)?;
    tally.judge(!is_served(&mut innocent, world), || "before it".to_owned());
    let (connections, each) = (scale.of(20, 300), scale.of(1_000, 20_000));
    let over = AtomicBool::new(false);
    let world = &*world;
    let served = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut asked, mut answered) = (0_u64, 0_u64);
            while !over.load(Ordering::Relaxed) {
                asked += 1;
                answered += u64::from(is_served(&mut innocent, world));
                std::thread::sleep(Duration::from_millis(50));
            }
            (asked, answered)
        });
        let done = beside(world, scale, &mut tally, || {
            let mut held = Vec::new();
            for _ in 0..connections {
                let mut stream = Stream::tcp(tcp)?;
                stream.gives_up_after(Duration::from_millis(100));
                // Past what it buffers the server reads no more, or closes.
                for _ in 0..each {
                    if !stream.send(&options(world)) {
                        break;
                    }
                }
                held.push(stream);
            }
            std::thread::sleep(Duration::from_millis(300));
            Ok(connections)
        });
        over.store(true, Ordering::Relaxed);
        done.map(|()| watch.join().unwrap_or((1, 0)))
    })?;
    let (asked, answered) = served;
    tally.try_many(asked);
    tally.break_in(asked - answered, || {
        format!("an innocent connection got {answered} answers to {asked} requests")
    });
    Ok(tally)
}

fn slow_writers(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let tcp = world.server.tcp.ok_or_else(no_streams)?;
    let mut innocent = Stream::tcp(tcp)?;
    let connections = scale.of(50, 2_000);
    let world = &*world;
    beside(world, scale, &mut tally, || {
        let mut held = Vec::new();
        for n in 0..connections {
            let mut stream = Stream::tcp(tcp)?;
            let draft = options(world).with("X", "y");
            let mut bytes = draft.render(stream.local, "TCP");
            bytes.truncate(bytes.len() - usize::try_from(n % 40).unwrap_or(0) - 1);
            if n % 2 == 0 {
                bytes = b"MESSAGE sip:a@b SIP/2.0\r\nContent-Length: 50000\r\n\r\nx".to_vec();
            }
            stream.send_bytes(&bytes);
            held.push(stream);
        }
        Ok(connections)
    })?;
    tally.judge(!is_served(&mut innocent, world), || {
        "an innocent connection is not served".to_owned()
    });
    let mut late = Stream::tcp(tcp)?;
    tally.judge(!is_served(&mut late, world), || {
        "a new connection is not served".to_owned()
    });
    Ok(tally)
}

fn odd_message(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let tcp = world.server.tcp.ok_or_else(no_streams)?;
    // From the trusted network.
    let mut trunk = Stream::tcp_from([127, 0, 0, 5], tcp)?;
    tally.judge(!is_served(&mut trunk, world), || "before it".to_owned());
    let good = options(world);
    let text =
        |draft: &Draft, local| String::from_utf8_lossy(&draft.render(local, "TCP")).into_owned();
    let odd = [
        (
            "a long header",
            text(
                &good.again().with("X-Long", &"x".repeat(9_000)),
                trunk.local,
            ),
        ),
        (
            "a bad CSeq",
            text(&good.again(), trunk.local).replace("CSeq: 2", "CSeq: two"),
        ),
        (
            "no Call-ID",
            text(&good.again(), trunk.local).replace("Call-ID", "X-Call"),
        ),
        (
            "a bad From",
            text(&good.again(), trunk.local).replace("From: <", "From: <<<"),
        ),
    ];
    for (what, message) in odd {
        let sent = trunk.send_bytes(message.as_bytes());
        let served = sent && is_served(&mut trunk, world);
        tally.judge(!served, || {
            let how = if trunk.is_closed() {
                "closed"
            } else {
                "silent"
            };
            format!("after {what} the connection is {how}")
        });
        if !served {
            trunk = Stream::tcp_from([127, 0, 0, 5], tcp)?;
        }
    }
    Ok(tally)
}
