//! Calls and messages whose bodies S/MIME protects, straight to a called side in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use measure::Schedule;
use signet_load::{Called, Control, Mix, Ran, Settings, SmimeSettings, Users, run};
use sip_msg::Transport;
use smime::make::Kind;
use smime::{Protection, Transfer};

const CALLS: u64 = 24;

fn drive(mix: &str, transport: Transport, smime: SmimeSettings, agents: usize) -> Ran {
    let mut settings = Settings {
        direct: Some(transport),
        called: Called::Uri("sip:bob@load.test".to_owned()),
        schedule: Some(Schedule::parse("100/s for 10s").unwrap().limit(CALLS)),
        smime: Some(smime),
        ..Settings::new(mix.parse::<Mix>().unwrap())
    };
    if agents > 0 {
        settings.users = Users::from_pattern("user{n}", None, agents).unwrap();
    }
    run(settings, &Control::new(), &mut |_| {}).unwrap()
}

fn counter(ran: &Ran, name: &str) -> u64 {
    let found = ran.counters.iter().find(|(known, _)| *known == name);
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn every_protection_is_opened_over_every_kind_of_transport() {
    for (transport, kind, agents) in [
        (Transport::Udp, Kind::P256, 0),
        (Transport::Tcp, Kind::Rsa2048, 3),
        (Transport::Tls, Kind::P256, 3),
    ] {
        for protection in Protection::ALL {
            let smime = SmimeSettings {
                key: kind,
                transfer: Transfer::Binary,
                ..SmimeSettings::new(protection)
            };
            let ran = drive("call=2,message=1", transport, smime, agents);
            let name = format!(
                "{transport:?} {}: {:?}",
                protection.name(),
                ran.causes.ranked()
            );
            assert_eq!((ran.ended, ran.failed), (CALLS, 0), "{name}");
            assert_eq!(counter(&ran, "smime_opened"), CALLS, "{name}");
            assert_eq!(counter(&ran, "smime_refused"), 0, "{name}");
        }
    }
}
