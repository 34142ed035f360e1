//! What is done with each line of the blocks in README and OPERATING, in their order.

/// What is done with a line.
#[derive(Debug)]
pub(crate) enum Do {
    /// It ends with success and says this.
    Run(&'static [&'static str]),
    /// The same while `signet serve` runs in the same place.
    Beside(&'static [&'static str]),
    /// It goes on serving and says this. The server before it is ended.
    Serve(&'static [&'static str]),
    /// It says this, and goes on until it is interrupted.
    UntilInterrupted(&'static [&'static str]),
    /// Nothing, and why.
    Skip(&'static str),
}

use Do::{Beside, Run, Serve, Skip, UntilInterrupted};

/// A block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) document: &'static str,
    /// The folder in which it is typed; blocks of one place go on from each other.
    pub(crate) place: &'static str,
    pub(crate) lines: &'static [(&'static str, Do)],
    /// Whether a configuration is in it, and the beginning of lines that are left out of it
    /// when it is checked, or `not here: ` and why it is not.
    pub(crate) configuration: Option<&'static str>,
}

const fn typed(
    document: &'static str,
    place: &'static str,
    lines: &'static [(&'static str, Do)],
) -> Block {
    Block {
        document,
        place,
        lines,
        configuration: None,
    }
}

const fn configured(leave_out: &'static str) -> Block {
    Block {
        document: OPERATING,
        place: "toml",
        lines: &[],
        configuration: Some(leave_out),
    }
}

const README: &str = "README.md";
const OPERATING: &str = "docs/OPERATING.md";

const RELEASE: &str = "a build for release takes minutes; the program is in its place here";
const PACKAGE: &str = "tests/package.rs makes and installs the package";
const PUBLIC: &str = "it wants the package's user, and a certificate of a public authority";
const RESTORES: &str = "tests/kill.rs puts a backup back by these lines";
const MEASURES: &str = "it measures for minutes, and wants the machine for itself";

/// Certificates that configurations name, and for what they are.
pub(crate) const PAIRS: &[(&str, &str)] = &[
    ("ecdsa", "example.com"),
    ("rsa", "--key-type rsa2048 example.com"),
    ("provider", "example.com"),
];

/// What is there afterwards, and its mode.
pub(crate) const MADE: &[(&str, u32)] = &[
    ("operating/signet-data", 0o700),
    ("operating/signet-data/ca.pem", 0o644),
    ("operating/signet-data/ca.key", 0o600),
    ("operating/signet-data/node.secret", 0o600),
    ("users/users.csv", 0o600),
    ("authority/gw.pem", 0o644),
    ("authority/gw.key", 0o600),
    ("operating/call.pcapng", 0o600),
    ("toml/etc/ticket.secret", 0o600),
];

pub(crate) const BLOCKS: &[Block] = &[
    typed(
        README,
        "readme",
        &[
            (
                "make demo    # builds, starts a server, makes 40,000 calls over UDP, TCP and TLS, draws what they cost",
                Skip(MEASURES),
            ),
            (
                "make test    # formats, lints, licences, unit, simulation, interoperation",
                Skip("this test is part of it"),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            ("cargo build --release", Skip(RELEASE)),
            (
                "target/release/signet serve            # data in ./signet-data; says what to type next",
                Serve(&[
                    "data in signet-data",
                    "Next, in another terminal:",
                    "user add alice",
                ]),
            ),
            (
                "target/release/signet user add alice   # in another terminal: asks for a password",
                Run(&["alice"]),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            ("target/release/signet bindings", Run(&[])),
            (
                "target/release/signet top              # calls, registrations, refusals, CPU, each second",
                Run(&["calls"]),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            (
                "target/release/signet check etc/signet.toml      # says what is wrong, where, and what to write instead",
                Run(&["etc/signet.toml: good"]),
            ),
            (
                "target/release/signet serve --config etc/signet.toml",
                Serve(&[
                    "listening on udp:0.0.0.0:5060",
                    "listening on tls:0.0.0.0:5061",
                ]),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            ("make deb", Skip(PACKAGE)),
            ("sudo apt install ./target/deb/signet_*.deb", Skip(PACKAGE)),
            (
                "sudo signet why --user alice --config /etc/signet/signet.toml",
                Run(&["no such refusal among the last 0"]),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            (
                "target/release/signet serve --metrics 127.0.0.1:9060 --trace-sip   # instead of the one above",
                Serve(&["figures on http://127.0.0.1:9060/metrics"]),
            ),
            (
                "curl http://127.0.0.1:9060/metrics",
                Run(&["# HELP signet_", "signet_refusals_total"]),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            (
                "target/release/signet load call --self --rate 5000 --duration 10s",
                Skip("tests/load/call.rs makes calls at a rate that any machine holds"),
            ),
            (
                "target/release/signet load sipp -sn uac 127.0.0.1:5060 -m 10",
                Skip("tests/load/sipp.rs runs it against a called side"),
            ),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            (
                "target/release/signet price crypto --html crypto.html",
                Skip(MEASURES),
            ),
            (
                "sudo target/release/signet price tunnel --html tunnel.html",
                Skip(MEASURES),
            ),
        ],
    ),
    typed(README, "readme", &[("make attacks", Skip(MEASURES))]),
    typed(
        README,
        "readme",
        &[
            ("make bench", Skip(MEASURES)),
            ("make bench-load", Skip(MEASURES)),
            ("make bench-tls", Skip(MEASURES)),
            ("make bench-auth", Skip(MEASURES)),
        ],
    ),
    typed(
        README,
        "readme",
        &[
            ("target/release/signet plan calibrate", Skip(MEASURES)),
            (
                "target/release/signet plan etc/plan.toml",
                Skip("tests/plan.rs makes plans, of a profile that is there"),
            ),
        ],
    ),
    typed(
        OPERATING,
        "operating",
        &[(
            "signet serve",
            Serve(&[
                "listening on udp:",
                "listening on tcp:",
                "listening on tls:",
                ":5060",
                ":5061",
                "Next, in another terminal:",
            ]),
        )],
    ),
    typed(
        OPERATING,
        "operating",
        &[("signet user add alice", Run(&["alice"]))],
    ),
    typed(
        OPERATING,
        "package",
        &[
            (
                "make deb                                 # target/deb/signet_*.deb",
                Skip(PACKAGE),
            ),
            ("sudo apt install ./target/deb/signet_*.deb", Skip(PACKAGE)),
            (
                "sudo signet user add alice --config /etc/signet/signet.toml",
                Run(&["alice"]),
            ),
        ],
    ),
    typed(
        OPERATING,
        "package",
        &[
            (
                "signet check /etc/signet/signet.toml     # says what is wrong, where, and what to write instead",
                Run(&["signet.toml: good"]),
            ),
            (
                "signet serve --config /etc/signet/signet.toml",
                Serve(&["listening on udp:0.0.0.0:5060"]),
            ),
        ],
    ),
    typed(
        OPERATING,
        "users",
        &[
            (
                "signet user add alice                  # at the terminal: asks; elsewhere: makes a password",
                Run(&["alice"]),
            ),
            (
                "signet user add bob@example.net --password-stdin < file",
                Run(&["bob"]),
            ),
            ("signet user add carol --generate", Run(&["carol"])),
            ("signet user passwd alice", Run(&["alice"])),
            ("signet user list", Run(&["alice", "bob", "carol"])),
            ("signet user remove alice", Run(&["alice"])),
            (
                "signet user import users.csv           # one bad line, and none is taken",
                Run(&["1"]),
            ),
            (
                "signet user export users.csv           # mode 0600: as secret as the passwords",
                Run(&[]),
            ),
            (
                "signet bindings                        # who is registered where",
                Run(&[]),
            ),
            (
                "signet domain add example.net          # then: systemctl reload signet, or kill -HUP $(pidof signet)",
                Run(&["example.net"]),
            ),
        ],
    ),
    configured(""),
    configured(""),
    configured(""),
    configured(""),
    configured(""),
    configured("not here: it is rtpengine's own, and tests/media.rs starts one with such"),
    configured(""),
    typed(
        OPERATING,
        "users",
        &[
            (
                "signet alias add +4930555100 alice         # a number from the outside",
                Run(&["+4930555100@", "leads to alice@"]),
            ),
            (
                "signet alias add sales alice bob carol     # several: they ring together",
                Run(&["leads to alice@", "carol@"]),
            ),
            (
                "signet alias add desk alice \"bob;q=0.5\"    # alice first, then bob",
                Run(&["leads to alice@"]),
            ),
            (
                "signet alias add doctor +493099999         # a short name for a number",
                Run(&["+493099999@"]),
            ),
            (
                "signet alias list",
                Run(&["+4930555100@", "desk@", ";q=0.5", "doctor@", "sales@"]),
            ),
            (
                "signet alias remove sales bob              # one target; without it the whole alias",
                Run(&["to bob@", "no more"]),
            ),
        ],
    ),
    configured(""),
    typed(
        OPERATING,
        "users",
        &[
            (
                "signet user set carol --group staff --permissions international --caller-id +4930555101",
                Run(&["permissions        international", "+4930555101"]),
            ),
            (
                "signet user set dave --calls-max 1",
                Run(&["calls-max          1"]),
            ),
            ("signet user show carol", Run(&["group              staff"])),
        ],
    ),
    configured(""),
    typed(
        OPERATING,
        "users",
        &[
            (
                "signet user set carol --forward-busy dave --forward-no-answer +491701234567 --no-answer-s 15",
                Run(&["forward-busy       dave@", "no-answer-s        15"]),
            ),
            (
                "signet user set carol --forward-busy -     # - takes it back",
                Run(&["forward-no-answer  +491701234567@"]),
            ),
        ],
    ),
    configured(""),
    typed(
        OPERATING,
        "authority",
        &[
            (
                "signet ca init                                   # done by the first start as well",
                Run(&["ca.pem"]),
            ),
            (
                "signet ca issue gw.example.com 192.0.2.7 --out gw # gw.pem and gw.key",
                Run(&["gw.pem", "gw.key"]),
            ),
        ],
    ),
    configured(""),
    typed(
        OPERATING,
        "authority",
        &[
            (
                "install -d -o root -g signet -m 0750 /etc/signet/tls",
                Skip(PUBLIC),
            ),
            (
                "install -o signet -g signet -m 0644 fullchain.pem /etc/signet/tls/chain.pem",
                Skip(PUBLIC),
            ),
            (
                "install -o signet -g signet -m 0600 privkey.pem /etc/signet/tls/key.pem",
                Skip(PUBLIC),
            ),
            ("systemctl reload signet", Skip(PUBLIC)),
        ],
    ),
    configured("crls"),
    typed(
        OPERATING,
        "toml",
        &[
            (
                "cargo build --release -p signet --features legacy-tls",
                Skip("the other build; tests/legacy_tls.rs has it"),
            ),
            (
                "signet ca issue --key-type rsa2048 sip.example.com --out legacy",
                Run(&["legacy.pem", "legacy.key"]),
            ),
        ],
    ),
    configured("not here: it is for the other build, and tests/legacy_tls.rs has it"),
    typed(
        OPERATING,
        "operating",
        &[
            (
                "_sips._tcp.example.com. SRV 0 0 5061 sip.example.com.",
                Skip("a line of a DNS zone; tests/dns.rs has such"),
            ),
            (
                "_sip._udp.example.com.  SRV 0 0 5060 sip.example.com.",
                Skip("a line of a DNS zone; tests/dns.rs has such"),
            ),
            (
                "_sip._tcp.example.com.  SRV 0 0 5060 sip.example.com.",
                Skip("a line of a DNS zone; tests/dns.rs has such"),
            ),
            (
                "sip.example.com.        A   203.0.113.7",
                Skip("a line of a DNS zone; tests/dns.rs has such"),
            ),
        ],
    ),
    configured(""),
    configured(""),
    configured(""),
    configured(""),
    typed(
        OPERATING,
        "operating",
        &[(
            "signet why --user alice               # or --call CALL-ID, --source ADDRESS; --last 100, --json",
            Beside(&["no such refusal among the last 0"]),
        )],
    ),
    typed(
        OPERATING,
        "operating",
        &[(
            "WARN refused request from 192.0.2.1: wrong_password 401, REGISTER of \"alice\" from \"sip:alice@example.org\" to \"sip:alice@example.org\" call \"a84b4c76\" (3 more in the 12 s before)",
            Skip("a line of the log; sip-worker's tests make it"),
        )],
    ),
    typed(
        OPERATING,
        "package",
        &[(
            "signet tls rotate-secret --forget-old --config /etc/signet/signet.toml",
            Run(&[]),
        )],
    ),
    configured(""),
    configured("not here: it is systemd's own, and tests/package.rs puts it there"),
    typed(
        OPERATING,
        "toml",
        &[(
            "openssl rand -hex 32 | install -o signet -g signet -m 0600 /dev/stdin /etc/signet/ticket.secret   # once, then copied",
            Run(&[]),
        )],
    ),
    configured(""),
    typed(
        OPERATING,
        "package",
        &[
            ("systemctl stop signet", Skip(RESTORES)),
            (
                "rm -f /var/lib/signet/signet.db-wal /var/lib/signet/signet.db-shm",
                Skip(RESTORES),
            ),
            (
                "install -o signet -g signet -m 0600 copy.db /var/lib/signet/signet.db",
                Skip(RESTORES),
            ),
            ("systemctl start signet", Skip(RESTORES)),
        ],
    ),
    configured(""),
    typed(
        OPERATING,
        "operating",
        &[("signet serve --trace-sip", Serve(&[]))],
    ),
    typed(
        OPERATING,
        "operating",
        &[
            (
                "signet trace --user alice                  # until Ctrl-C",
                UntilInterrupted(&["tracing the server on", "Ctrl-C ends it"]),
            ),
            (
                "signet trace --call a84b4c76 --address 192.0.2.0/24 --seconds 60",
                UntilInterrupted(&["tracing the server on"]),
            ),
            (
                "signet trace --pcap call.pcapng            # for Wireshark, in place of text",
                UntilInterrupted(&["call.pcapng; Ctrl-C ends it"]),
            ),
        ],
    ),
    typed(
        OPERATING,
        "operating",
        &[(
            "signet price live --data DIR --core-hour-eur 0.05",
            Skip("tests/price_live.rs looks at a server with calls"),
        )],
    ),
];
