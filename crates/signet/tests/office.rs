//! A day in an office, on software that is not ours: twenty telephones of five kinds, some
//! behind address translations, two providers who want passwords, a gateway that says nothing,
//! and an operator. Each happening has its record or, where it is refused, its reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
#[path = "trunks/far.rs"]
mod far;
#[path = "office/house.rs"]
mod house;
#[allow(dead_code)]
#[path = "trunks/kamailio.rs"]
mod kamailio;
#[path = "office/net.rs"]
mod net;
#[allow(dead_code)]
#[path = "office/phones.rs"]
mod phones;
#[allow(dead_code)]
#[path = "office/sipp.rs"]
mod sipp;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::caller::Caller;
use support::openssl::figure;
use support::phone::field;
use support::{ADDRESS, have, in_namespace};

use house::{Office, password};
use phones::{Event, Habit, Kind, have_python};
use sipp::End;

const DOMAIN: &str = "office.example";
/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than the routers remember a datagram's way.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// What it is called, and how it comes about.
type Happening = (&'static str, fn(&mut Office));

/// What happens on the day, in its order.
const DAY: [Happening; 23] = [
    ("twenty telephones register", telephones_register),
    ("somebody guesses a password", a_password_is_guessed),
    ("each kind calls the next", each_kind_calls_the_next),
    (
        "one branch calls another after a while",
        a_branch_calls_another,
    ),
    ("a number from outside is a user's", a_number_is_a_users),
    ("a number from outside is an alias", a_number_is_an_alias),
    ("a number that nobody has is called", a_number_is_nobodys),
    ("a stranger calls", a_stranger_calls),
    ("a call goes out by the first provider", a_call_goes_out),
    ("a gateway says nothing", a_gateway_says_nothing),
    ("somebody is away", somebody_is_away),
    ("somebody is busy", somebody_is_busy),
    ("nobody answers", nobody_answers),
    ("a call is transferred by pjsip", pjsip_transfers),
    ("a call is transferred by baresip", baresip_transfers),
    ("a caller hides", a_caller_hides),
    ("numbers are refused", numbers_are_refused),
    ("an apprentice calls for help", help_is_called),
    ("a telephone is stolen", a_telephone_is_stolen),
    (
        "the configuration changes during a call",
        the_configuration_changes,
    ),
    (
        "the server is started anew during a call",
        the_server_is_started_anew,
    ),
    (
        "telephones are reached as before",
        telephones_are_reached_as_before,
    ),
    ("the day is over", the_day_is_over),
];

/// Telephones that are not ours take contacts back, register anew and answer by clocks of their
/// own. On a machine that is busy one may be away just when it is called, or a router forget it
/// while the server starts: such a day is told of, and another is passed, in another namespace.
#[test]
fn a_day_in_the_office() {
    let is_inside = std::env::var_os("SIGNET_TEST_INSIDE_NAMESPACE").is_some();
    if is_inside || catch_unwind(pass_a_day).is_err() {
        pass_a_day();
    }
}

fn pass_a_day() {
    in_namespace("a_day_in_the_office", || {
        let tools = [
            "nft",
            "nsenter",
            "baresip",
            "linphone-daemon",
            "sipp",
            "kamailio",
            "rtpengine",
        ];
        if !(tools.iter().all(|of| have(of)) && have_python()) {
            return;
        }
        let begun = Instant::now();
        let mut office = Office::build();
        office.serve();
        for (name, happens) in DAY {
            let since = begun.elapsed().as_secs_f32();
            eprintln!("{since:5.1} s: {name}");
            let went = catch_unwind(AssertUnwindSafe(|| happens(&mut office)));
            assert!(
                went.is_ok(),
                "the day went wrong where {name}; the log:\n{}",
                office.log()
            );
        }
    });
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text<'r>(record: &'r Value, name: &str) -> &'r str {
    record[name].as_str().unwrap_or_default()
}

fn own(name: &str) -> String {
    format!("{name}@{DOMAIN}")
}

/// A call that the caller ends, and its record.
#[track_caller]
fn completed(office: &mut Office, caller: &str, called: &str, by: &str) -> Value {
    office.wait_for_user(by);
    office.of(by).forget();
    office.of(caller).dial(called);
    office.of(by).wait(Event::Established);
    office.of(caller).wait(Event::Established);
    office.of(caller).hang_up();
    office.of(by).wait(Event::Closed);
    office.of(caller).wait(Event::Closed);
    let record = office.record();
    assert_eq!(text(&record, "caller_user"), own(caller), "{record}");
    assert_eq!(
        text(&record, "request_uri"),
        format!("sip:{called}@{DOMAIN}"),
        "{record}"
    );
    assert_eq!(text(&record, "caller_class"), "user", "{record}");
    ended_well(&record, "caller");
    record
}

/// A call that a telephone makes and ends, and that something answers; its record.
#[track_caller]
fn answered(office: &mut Office, caller: &str, number: &str) -> Value {
    office.of(caller).dial(number);
    office.of(caller).wait(Event::Established);
    office.of(caller).hang_up();
    office.of(caller).wait(Event::Closed);
    let record = office.record();
    assert_eq!(text(&record, "caller_user"), own(caller), "{record}");
    ended_well(&record, "caller");
    record
}

/// What each record says of a call that was answered, and that this side ended.
#[track_caller]
fn ended_well(record: &Value, by: &str) {
    let said = (
        &record["status"],
        &record["bye_status"],
        text(record, "ended_by"),
        &record["why"],
    );
    assert_eq!(
        said,
        (&200.into(), &200.into(), by, &Value::Null),
        "{record}"
    );
    assert!(record["talk_ms"].is_u64(), "{record}");
}

/// What is told of a call that was refused, in its record and by `signet why`.
#[track_caller]
fn refused(office: &mut Office, status: u16, reason: &str) {
    let record = office.record();
    let said = (
        &record["status"],
        text(&record, "ended_by"),
        text(&record, "why"),
    );
    assert_eq!(said, (&status.into(), "server", reason), "{record}");
    let told = office.why(&["--call", text(&record, "call_id")], "INVITE", reason);
    assert_eq!(told["status"], status, "{told}");
}

fn telephones_register(office: &mut Office) {
    office.switch_on();
    office.wait_for_bindings(20);
    let bindings = office.told(&["bindings"]);
    for (name, outside) in [
        ("dora", "10.77.0.2"),
        ("otto", "10.77.0.2"),
        ("hanna", "10.77.0.3"),
        ("tilda", "10.77.0.3"),
    ] {
        let line = bindings
            .lines()
            .find(|line| line.starts_with(&format!("sip:{name}@")));
        let line = line.unwrap_or_else(|| panic!("{name} is not there: {bindings}"));
        assert!(line.contains(&format!("from {outside}:")), "{line}");
    }
    let trunks = || office.told(&["trunks"]);
    wait_for("the registration at the provider", || {
        trunks().contains("is registered since")
    });
}

fn a_password_is_guessed(office: &mut Office) {
    let who = ("anna", "guessed-it");
    let mut phone = office.phone(Kind::Pjsua, who, "10.77.0.40", "udp", Habit::Answers);
    phone.wait_for("UNREGISTERED 401");
    let told = office.why(&["--source", "10.77.0.40"], "REGISTER", "wrong_password");
    assert_eq!(told["status"], 401, "{told}");
    office.wait_for_bindings(20);
}

fn each_kind_calls_the_next(office: &mut Office) {
    for (caller, called, transports) in [
        ("anna", "emil", ("udp", "udp")),
        ("fritz", "karl", ("tcp", "tls")),
        ("jonas", "otto", ("tcp", "udp")),
        ("mara", "clara", ("udp", "tls")),
        ("lena", "boris", ("tcp", "tcp")),
        ("paula", "greta", ("udp", "tls")),
    ] {
        let record = completed(office, caller, called, called);
        let by = (
            text(&record, "caller_transport"),
            text(&record, "callee_transport"),
        );
        assert_eq!(by, transports, "{record}");
    }
    // SIPp is called, and calls.
    let record = answered(office, "clara", "rosa");
    assert_eq!(text(&record, "callee_address"), "10.77.0.31:5090");
    office.of("anna").forget();
    office.sipp("quinn").call("anna", false, End::Answered);
    office.of("anna").wait(Event::Established);
    office.of("anna").wait(Event::Closed);
    ended_well(&office.record(), "caller");
}

fn a_branch_calls_another(office: &mut Office) {
    std::thread::sleep(FORGOTTEN);
    let record = completed(office, "dora", "hanna", "hanna");
    let ends = (
        text(&record, "caller_address"),
        text(&record, "callee_address"),
    );
    assert!(
        ends.0.starts_with("10.77.0.2:") && ends.1.starts_with("10.77.0.3:"),
        "{record}"
    );
    // The engine leads what they say, also where they have learnt from where they are seen.
    let log = office.folder.path().join("rtpengine.log");
    for (caller, called) in [("dora", "lena"), ("anna", "hanna"), ("mara", "greta")] {
        let record = completed(office, caller, called, called);
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(
            log.contains(text(&record, "call_id")),
            "no engine had: {record}"
        );
    }
    let record = completed(office, "anna", "mara", "mara");
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(
        !log.contains(text(&record, "call_id")),
        "an engine had: {record}"
    );
    let record = answered(office, "hanna", "sven");
    assert!(
        text(&record, "callee_address").starts_with("10.77.0.2:"),
        "{record}"
    );
}

/// The first provider calls a number, which a user answers and ends.
#[track_caller]
fn called_from_outside(office: &mut Office, number: &str, name: &str) -> Value {
    office.of(name).forget();
    let provider = office.north.addr;
    let call_id = office.far.call(provider, number);
    // Its offer comes with the answer, so it is established by the ACK.
    assert_eq!(office.far.answered(provider, &call_id), "200");
    office.of(name).wait(Event::Established);
    office.of(name).hang_up();
    office.of(name).wait(Event::Closed);
    let record = office.record();
    ended_well(&record, "callee");
    let said = (text(&record, "call_id"), text(&record, "caller_class"));
    assert_eq!(said, (&*call_id, "trunk"), "{record}");
    record
}

fn a_number_is_a_users(office: &mut Office) {
    let record = called_from_outside(office, "+4930101", "anna");
    assert_eq!(
        text(&record, "callee_address"),
        "10.77.0.20:5080",
        "{record}"
    );
}

fn a_number_is_an_alias(office: &mut Office) {
    office.told(&["alias", "add", "+4930555", "otto"]);
    let record = called_from_outside(office, "+4930555", "otto");
    assert!(
        text(&record, "callee_address").starts_with("10.77.0.2:"),
        "{record}"
    );
}

fn a_number_is_nobodys(office: &mut Office) {
    let provider = office.north.addr;
    // The second is a way out by the other provider, at the expense of the house.
    for number in ["+4930109", "0012125551234"] {
        let call_id = office.far.call(provider, number);
        assert_eq!(office.far.answered(provider, &call_id), "404");
        refused(office, 404, "no_user_for_number");
    }
}

fn a_stranger_calls(office: &mut Office) {
    let server = format!("{ADDRESS}:5060").parse().unwrap();
    for called in [
        "anna@office.example",
        "+4930101@office.example",
        "112@office.example",
    ] {
        let mut stranger = Caller::new(server, &format!("sip:{called}"));
        assert_eq!(stranger.invite(), 403, "{called}");
    }
    office.why(&["--source", "127.0.0.1"], "INVITE", "foreign_from");
}

fn a_call_goes_out(office: &mut Office) {
    let record = answered(office, "boris", "030123");
    assert_eq!(text(&record, "callee_trunk"), "north", "{record}");
    let invite = office
        .far
        .wait_for("INVITE sip:+4930123@provider.example ", 1);
    let shown = field(&invite, "P-Asserted-Identity");
    assert_eq!(shown, "<sip:+4930102@provider.example>", "his own number");
    assert!(
        !invite.contains("boris-secret") && !invite.contains("Proxy-Auth"),
        "{invite}"
    );
}

fn a_gateway_says_nothing(office: &mut Office) {
    // From behind a translation, over TLS.
    office.south.forget();
    let record = answered(office, "greta", "0012125551234");
    assert_eq!(text(&record, "callee_trunk"), "south", "{record}");
    let tries = [
        "udp:10.77.0.103:5060 gateway_silent",
        "udp:10.77.0.102:5070 401",
        "udp:10.77.0.102:5070 200",
    ];
    assert_eq!(record["tries"], serde_json::json!(tries), "{record}");
    let told = office
        .south
        .wait_for("INVITE sip:12125551234@south.example");
    assert!(told.contains("PROVED INVITE"), "{told}");
    let way = office.why(
        &["--call", text(&record, "call_id")],
        "INVITE",
        "gateway_silent",
    );
    assert_eq!(way["hop"], "10.77.0.103:5060", "{way}");
    // Who calls next is led past it.
    let record = answered(office, "karl", "0033140200000");
    assert_eq!(text(&record, "callee_trunk"), "south", "{record}");
    assert!(
        !record["tries"].to_string().contains("10.77.0.103"),
        "{record}"
    );
    let gateways = office.told(&["gateways"]);
    assert!(gateways.contains("passed over"), "{gateways}");
}

fn somebody_is_away(office: &mut Office) {
    office.told(&["user", "set", "paula", "--forward-always", "otto"]);
    let record = completed(office, "jonas", "paula", "otto");
    assert!(
        text(&record, "callee_address").starts_with("10.77.0.2:"),
        "{record}"
    );
    office.told(&["user", "set", "paula", "--forward-always", "-"]);
    completed(office, "jonas", "paula", "paula");
}

fn somebody_is_busy(office: &mut Office) {
    office.of("emil").dial("nora");
    office.of("emil").wait(Event::Closed);
    let record = office.record();
    let said = (&record["status"], text(&record, "ended_by"));
    assert_eq!(said, (&486.into(), "callee"), "{record}");
    office.told(&["user", "set", "nora", "--forward-busy", "mara"]);
    let record = completed(office, "emil", "nora", "mara");
    assert_eq!(
        text(&record, "callee_address"),
        "10.77.0.28:5070",
        "{record}"
    );
    // A long INVITE is tried over TCP before that.
    let tries = record["tries"].as_array().unwrap();
    assert!(
        tries.contains(&"udp:10.77.0.29:5070 486".into()),
        "{record}"
    );
}

fn nobody_answers(office: &mut Office) {
    let words = [
        "user",
        "set",
        "ida",
        "--forward-no-answer",
        "030777",
        "--no-answer-s",
        "1",
    ];
    office.told(&words);
    let record = answered(office, "otto", "ida");
    assert_eq!(text(&record, "callee_trunk"), "north", "{record}");
    let invite = office
        .far
        .wait_for("INVITE sip:+4930777@provider.example ", 1);
    let diversion = field(&invite, "Diversion");
    assert!(diversion.contains(";reason=no-answer"), "{diversion}");
    // Where ida may not call, nobody gets by her either.
    office.told(&["user", "set", "ida", "--permissions", "internal"]);
    office.of("otto").dial("ida");
    office.of("otto").wait(Event::Closed);
    let record = office.record();
    assert_eq!(record["status"], 408, "{record}");
    let told = office.why(
        &["--call", text(&record, "call_id")],
        "INVITE",
        "forward_refused",
    );
    assert!(told["detail"].is_string(), "{told}");
}

/// The callee asks the caller to call somebody else, who answers; the records of both calls.
#[track_caller]
fn transferred(office: &mut Office, caller: &str, by: &str, to: &str) {
    office.of(by).forget();
    office.of(to).forget();
    office.of(caller).dial(by);
    office.of(by).wait(Event::Established);
    office.of(caller).wait(Event::Established);
    office.of(by).transfer(to);
    office.of(to).wait(Event::Established);
    // Who is not rid of the first call yet ends it.
    std::thread::sleep(Duration::from_millis(500));
    office.of(by).hang_up();
    office.of(to).hang_up();
    office.of(to).wait(Event::Closed);
    let records: [Value; 2] = office.records();
    for called in [by, to] {
        let uri = format!("sip:{called}@{DOMAIN}");
        let record = records.iter().find(|of| text(of, "request_uri") == uri);
        let record = record.unwrap_or_else(|| panic!("no call to {called}: {records:#?}"));
        assert_eq!(text(record, "caller_user"), own(caller), "{record}");
        assert_eq!(record["status"], 200, "{record}");
    }
}

fn pjsip_transfers(office: &mut Office) {
    transferred(office, "anna", "jonas", "fritz");
}

fn baresip_transfers(office: &mut Office) {
    transferred(office, "lena", "dora", "paula");
}

fn a_caller_hides(office: &mut Office) {
    office.sipp("quinn").call("030124", true, End::Answered);
    let record = office.record();
    ended_well(&record, "caller");
    assert_eq!(
        text(&record, "caller_user"),
        own("quinn"),
        "the record knows"
    );
    let invite = office
        .far
        .wait_for("INVITE sip:+4930124@provider.example ", 1);
    assert!(field(&invite, "From").contains("anonymous"), "{invite}");
    assert!(
        !invite.contains("quinn"),
        "nothing of who it is goes there: {invite}"
    );
    // Nor does it go to a telephone of the house.
    office.of("boris").forget();
    office.sipp("quinn").call("boris", true, End::Answered);
    let told = office.of("boris").wait(Event::Closed);
    assert!(
        told.contains("anonymous@anonymous.invalid") && !told.contains("quinn"),
        "{told}"
    );
    let record = office.record();
    assert_eq!(text(&record, "caller_user"), own("quinn"), "{record}");
}

fn numbers_are_refused(office: &mut Office) {
    for (caller, number, status, reason) in [
        ("anna", "0900123456", 403, "number_blocked"),
        ("hanna", "4711", 404, "no_such_user"),
    ] {
        office.of(caller).dial(number);
        office.of(caller).wait(Event::Closed);
        refused(office, status, reason);
    }
    office.told(&["user", "set", "quinn", "--group", "apprentices"]);
    office
        .sipp("quinn")
        .call("030125", false, End::Refused(403));
    refused(office, 403, "not_permitted");
}

fn help_is_called(office: &mut Office) {
    office.sipp("quinn").call("112", false, End::Answered);
    let record = office.record();
    ended_well(&record, "caller");
    assert_eq!(text(&record, "callee_trunk"), "north", "{record}");
}

fn a_telephone_is_stolen(office: &mut Office) {
    office.passwd("karl", "another-secret");
    office.told(&["bindings", "remove", "karl"]);
    office.of("anna").dial("karl");
    office.of("anna").wait(Event::Closed);
    refused(office, 480, "not_registered");
    // The thief has the telephone, and the old password in it.
    office.of("karl").forget();
    office.of("karl").again();
    office.of("karl").wait_for("UNREGISTERED 401");
    let told = office.why(&["--user", "karl"], "REGISTER", "wrong_password");
    assert_eq!(told["status"], 401, "{told}");
    // It has tried the password for so long that it is not looked up any more.
    office.of("karl").dial("030126");
    office.of("karl").wait(Event::Closed);
    let told = office.why(&["--user", "karl"], "INVITE", "too_many_guesses");
    assert_eq!(told["status"], 407, "{told}");
    office.wait_for_bindings(19);
}

fn the_configuration_changes(office: &mut Office) {
    office.of("paula").forget();
    office.of("clara").dial("paula");
    office.of("paula").wait(Event::Established);
    office.of("clara").wait(Event::Established);
    office.configure(", \"0180\"");
    office.reload();
    assert!(office.told(&["calls"]).contains("1 of 1 calls in progress"));
    office.of("anna").dial("0180555");
    office.of("anna").wait(Event::Closed);
    refused(office, 403, "number_blocked");
    office.of("paula").hang_up();
    office.of("clara").wait(Event::Closed);
    ended_well(&office.record(), "callee");
}

fn the_server_is_started_anew(office: &mut Office) {
    office.of("mara").forget();
    office.of("anna").dial("mara");
    office.of("mara").wait(Event::Established);
    office.of("anna").wait(Event::Established);
    office.stop();
    let record = office.record();
    let said = (text(&record, "ended_by"), text(&record, "why"));
    assert_eq!(said, ("server", "server_stopped"), "{record}");
    office.serve();
    // The call goes on without it, and ends by way of it.
    office.of("mara").hang_up();
    office.of("anna").wait(Event::Closed);
    office.of("mara").wait(Event::Closed);
    let trunks = || office.told(&["trunks"]);
    wait_for("the registration at the provider", || {
        trunks().contains("is registered since")
    });
}

fn telephones_are_reached_as_before(office: &mut Office) {
    // By datagrams at once, numbers and people as they were.
    completed(office, "anna", "hanna", "hanna");
    completed(office, "hanna", "nora", "mara");
    called_from_outside(office, "+4930555", "otto");
    answered(office, "otto", "030127");
    // By a connection as soon as it is there again.
    let jonas = || office.told(&["bindings", "jonas"]);
    wait_for("another connection of jonas's", || {
        jonas().contains("on its flow")
    });
    completed(office, "anna", "jonas", "jonas");
    // And those behind translations, which are kept open by the new process.
    std::thread::sleep(FORGOTTEN);
    completed(office, "jonas", "dora", "dora");
    answered(office, "dora", "tilda");
}

fn the_day_is_over(office: &mut Office) {
    assert_eq!(office.told(&["calls"]), "no calls are in progress\n");
    let at = office.folder.path().to_owned();
    assert_eq!(figure(&at, "signet_broken_invariants_total"), 0);
    for at in ["queue", "file"] {
        let lost = format!("signet_call_records_lost_total{{at=\"{at}\"}}");
        assert_eq!(figure(office.folder.path(), &lost), 0);
    }
    let mut told = office.log() + &office.told(&["why", "--last", "1000"]);
    told += &std::fs::read_to_string(at.join("calls.jsonl")).unwrap();
    for secret in office.secrets() {
        assert!(!told.contains(&secret), "{secret} is told");
    }
    assert!(!told.contains(&password("karl")));
    office.stop_phones();
    office.stop();
    let []: [Value; 0] = office.records();
}
