//! A profile and a demand for tests; the figures are made up.

use measure::Host;

use crate::demand::{Demand, Users};
use crate::event::Event;
use crate::fit::{Fit, Price};
use crate::profile::{DatabasePrice, FORMAT, Held, Later, Memory, Profile, Run, VERSION};

/// What each event costs, in microseconds.
fn us(event: Event) -> f64 {
    match event {
        Event::LegUdp => 15.0,
        Event::LegTcp => 12.0,
        Event::LegTls => 20.0,
        Event::Local => 4.0,
        Event::RegisterUdp => 9.0,
        Event::RegisterTcp => 8.0,
        Event::RegisterTls => 11.0,
        Event::ConnectTcp => 30.0,
        Event::FullP256 => 180.0,
        Event::FullRsa2048 => 420.0,
        Event::Resumed => 90.0,
        Event::Mutual => 120.0,
        Event::ChallengeCall => 12.0,
        Event::ChallengeRegister => 7.0,
        Event::VerifyOwn => 6.0,
        Event::VerifyRemote => 14.0,
        Event::VerifyCached => 3.0,
    }
}

/// A profile in which everything has a price.
pub(crate) fn profile() -> Profile {
    let price = |event| {
        let us = us(event);
        let error_us = us * 0.04;
        (event, Price { us, error_us })
    };
    let held = |bytes: f64| Held {
        bytes,
        error_bytes: bytes * 0.05,
    };
    Profile {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: "made up".to_owned(),
        machine: Host {
            cores: 2,
            kernel: "6.1".to_owned(),
            cpu_model: "A processor".to_owned(),
        },
        machine_id: Some("an id".to_owned()),
        memory: Memory {
            base: 40e6,
            binding: held(900.0),
            tcp: held(3_000.0),
            tls: held(6_000.0),
            call: held(500.0),
            transaction: held(1_200.0),
        },
        connections_max: 3_000,
        later: Some(Later {
            us: 1.0,
            error_us: 0.2,
        }),
        fit: Fit {
            base_cores: 0.001,
            base_error_cores: 0.000_1,
            wake_us: 3.0,
            wake_error_us: 0.1,
            mixed_us: 1.0,
            mixed_error_us: 0.1,
            awake_us: 40.0,
            prices: Event::ALL.map(price).into(),
            residual: 0.05,
            cores_max: 0.4,
        },
        bytes: Event::ALL.map(|event| (event, 1_000.0)).into(),
        bytes_residual: 0.01,
        // As many as a calibration has; what prices they would give is of no account.
        runs: vec![Run::default(); 39],
        database: Some(DatabasePrice {
            us: 40.0,
            error_us: 4.0,
            bits: Some(4_000.0),
            rtt_ms_max: 10.0,
        }),
        ..Profile::default()
    }
}

/// The example of `etc/plan.toml`, changed.
pub(crate) fn demand(change: impl FnOnce(&mut Demand)) -> Demand {
    let text = include_str!("../../../etc/plan.toml");
    let path = std::path::Path::new("etc/plan.toml");
    let mut demand = Demand::parse(path, text, &[]).unwrap();
    assert_eq!(demand.authentication.users, Users::Own);
    change(&mut demand);
    demand
}
