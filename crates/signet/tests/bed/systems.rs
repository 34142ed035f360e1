//! The configurations that `signet bed` makes from settings: each is one that the server
//! itself takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use crate::support::command::{run, text};
use crate::support::{TestDir, have, signet};
use signet_bed::certificates::Certificates;
use signet_bed::experiment::{
    Authentication, Connection, Flow, Resumption, Role, Security, Setting, Suite, Transport,
};
use signet_bed::system::{Driver, Kamailio, Network, Ports, Signet, Stage, driver};
use sip_net::testing::free_ports;

/// Settings of the papers' experiments, and each value at least once.
fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for transport in [Transport::Udp, Transport::Tcp, Transport::Tls] {
        for authentication in [
            Authentication::None,
            Authentication::Own,
            Authentication::Mariadb,
        ] {
            for (role, flow) in [
                (Role::Proxy, Flow::Calls),
                (Role::Registrar, Flow::CallsToRegistered),
                (Role::Registrar, Flow::Registrations),
            ] {
                all.push(Setting {
                    role,
                    flow,
                    transport,
                    authentication,
                    ..Setting::default()
                });
            }
        }
    }
    let with_lookups = |lookups| Setting {
        authentication: Authentication::Mariadb,
        database_rtt_ms: 30,
        lookups,
        ..Setting::default()
    };
    all.extend([None, Some((16, 1)), Some((8, 4))].map(with_lookups));
    all.extend(securities().into_iter().map(|security| Setting {
        transport: Transport::Tls,
        caller_connection: Connection::PerCall,
        security,
        workers: Some(2),
        ..Setting::default()
    }));
    all.push(Setting {
        transport: Transport::Tcp,
        called_connection: Connection::PerCall,
        ..Setting::default()
    });
    all
}

fn securities() -> Vec<Security> {
    let with = |suite, group: Option<&str>, key: &str| Security {
        suite,
        group: group.map(str::to_owned),
        key: Some(key.to_owned()),
        ..Security::default()
    };
    let mut all = Vec::new();
    for key in ["rsa2048", "p256"] {
        for group in [None, Some("x25519"), Some("secp256r1"), Some("secp384r1")] {
            all.push(with(Suite::Tls13, group, key));
            all.push(with(Suite::Tls12, group, key));
        }
    }
    all.push(with(Suite::Tls13, Some("X25519MLKEM768"), "p256"));
    for resumption in [Resumption::Tickets, Resumption::Ids] {
        all.push(Security {
            resumption,
            ..with(Suite::Tls12, None, "rsa2048")
        });
    }
    all.push(Security {
        mutual: true,
        ..with(Suite::Tls13, None, "p256")
    });
    all.push(with(Suite::RsaAes, None, "rsa2048"));
    all.push(with(Suite::RsaTripleDes, None, "rsa2048"));
    all
}

/// Writes each configuration of a driver and gives it to `check`; how many there were, and
/// how many settings it cannot do.
fn each(
    folder: &Path,
    driver: &dyn Driver,
    mut check: impl FnMut(&Setting, &Path),
) -> (usize, usize) {
    let certificates = Certificates::make(folder).unwrap();
    let network = Network::loopback();
    let stage = Stage {
        signet: Path::new(signet()),
        folder,
        ports: Ports::from(17_960).unwrap(),
        core: "0",
        certificates: &certificates,
        network: &network,
        database: None,
    };
    let (mut made, mut unable) = (0, 0);
    for setting in settings() {
        match driver.configuration(&stage, &setting) {
            Ok(files) => {
                for file in &files {
                    std::fs::write(folder.join(&file.name), &file.text).unwrap();
                }
                check(&setting, &folder.join(&files.first().unwrap().name));
                made += 1;
            }
            Err(why) => {
                assert!(!why.remedy.is_empty(), "{why}");
                unable += 1;
            }
        }
    }
    (made, unable)
}

#[test]
fn signet_takes_what_the_bed_writes_for_it() {
    let folder = TestDir::new("bed-signet");
    let own = Signet::new("signet", Path::new(signet()));
    let (made, unable) = each(folder.path(), &own, |setting, config| {
        let password = config.with_file_name("password");
        if password.exists() {
            let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&password, own).unwrap();
        }
        let output = run(&["check", text(config)], "");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{setting:?}: {told}");
    });
    let legacy = if cfg!(feature = "legacy-tls") { 0 } else { 2 };
    assert_eq!((made, unable), (settings().len() - legacy, legacy));
}

#[test]
fn kamailio_takes_what_the_bed_writes_for_it() {
    if !have("kamailio") {
        return;
    }
    let folder = TestDir::new("bed-kamailio");
    let (made, unable) = each(folder.path(), &Kamailio, |setting, config| {
        let output = Command::new("kamailio")
            .args(["-c", "-f", text(config)])
            .args(Kamailio::defines(setting))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{setting:?}: {told}");
        // What was not switched on would be passed over unread.
        let whole = std::fs::read_to_string(config).unwrap();
        for placeholder in [
            "CHILDREN",
            "LISTEN\n",
            "NEXTHOP;",
            "TLSCONFIG\"",
            "SESSIONCACHE)",
            "DATABASEURL\"",
            "REALM\"",
        ] {
            let body = whole.split_once("debug=0").unwrap().1;
            assert!(!body.contains(placeholder), "{placeholder} in {body}");
        }
    });
    // Users of its own, batches, 3DES, ML-KEM, and a connection per call to a next hop.
    assert_eq!((made, unable), (settings().len() - 13, 13));
}

/// What `kamailio -c` does not read is read at its start.
#[test]
fn both_start_with_each_way_of_tls() {
    let folder = TestDir::new("bed-starts");
    let certificates = Certificates::make(folder.path()).unwrap();
    let network = Network::loopback();
    let own = Signet::new("signet", Path::new(signet()));
    let mut drivers: Vec<&dyn Driver> = vec![&own];
    if have("kamailio") {
        drivers.push(&Kamailio);
    }
    let stage = Stage {
        signet: Path::new(signet()),
        folder: folder.path(),
        ports: Ports::from(free_ports(6)).unwrap(),
        core: "0",
        certificates: &certificates,
        network: &network,
        database: None,
    };
    for driver in drivers {
        for (suite, mutual) in [
            (Suite::Tls13, true),
            (Suite::Tls12, false),
            (Suite::RsaAes, false),
        ] {
            let mut setting = Setting {
                transport: Transport::Tls,
                ..Setting::default()
            };
            (setting.security.suite, setting.security.mutual) = (suite, mutual);
            if driver.configuration(&stage, &setting).is_ok() {
                let mut server = driver.start(&stage, &setting).unwrap();
                server.must_run().unwrap();
            }
        }
    }
}

#[test]
fn what_is_not_installed_is_told_with_what_to_install() {
    for name in ["opensips", "asterisk"] {
        let system = driver(name, Path::new(signet())).unwrap();
        if let Err(unable) = system.version() {
            assert!(unable.why.contains(name), "{unable}");
            assert!(unable.remedy.contains("https://"), "{unable}");
        }
    }
    let none = driver("signet", Path::new("no/such/build")).unwrap();
    let unable = none.version().unwrap_err();
    assert!(unable.remedy.contains("--signet"), "{unable}");
}
