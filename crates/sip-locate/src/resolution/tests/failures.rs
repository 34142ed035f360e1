//! What is made of questions that are not answered, and of services of which one is safer.

use super::*;

const TLS: &str = "_sips._tcp.example.com";
const UDP: &str = "_sip._udp.example.com";
const TCP: &str = "_sip._tcp.example.com";

/// A domain with a web server at its name, and a SIP server elsewhere.
fn with_a_web_server() -> Table {
    Table::default()
        .addr("example.com", "203.0.113.80")
        .addr("sip.example.com", "192.0.2.1")
}

fn with_srv(names: &[&str]) -> Table {
    let table = with_a_web_server();
    names.iter().fold(table, |table, name| {
        table.srv(name, 0, 0, 5060, "sip.example.com")
    })
}

#[test]
fn a_question_that_failed_leads_to_no_web_server() {
    // RFC 3263 4.2: "If no SRV records were found, the client performs an A or AAAA record
    // lookup of the domain name."
    let plain = with_a_web_server().resolve("sip:example.com").unwrap();
    assert_eq!(plain, ["udp 203.0.113.80:5060"], "none were found");
    for (answer, error) in [
        (Answer::Timeout, LocateError::Timeout),
        (Answer::Failed, LocateError::Failed),
    ] {
        for (uri, kind, name) in [
            ("sip:example.com", Kind::Srv, TLS),
            ("sip:example.com", Kind::Srv, UDP),
            ("sip:example.com", Kind::Srv, TCP),
            ("sip:example.com", Kind::Naptr, "example.com"),
            ("sips:example.com", Kind::Srv, TLS),
            ("sips:example.com", Kind::Naptr, "example.com"),
            ("sip:example.com;transport=udp", Kind::Srv, UDP),
            ("sip:example.com;transport=tls", Kind::Srv, TLS),
        ] {
            let mut table = with_a_web_server().failing(kind, name, answer.clone());
            assert_eq!(table.resolve(uri), Err(error), "{uri} {name}");
            let is_addr = |asked: &String| asked.starts_with('A');
            assert!(!table.asked.iter().any(is_addr), "{:?}", table.asked);
        }
        // The services of a domain's own choice are no other matter.
        let mut table = with_a_web_server()
            .naptr("example.com", 1, 1, "SIPS+D2T", TLS)
            .failing(Kind::Srv, TLS, answer.clone());
        assert_eq!(table.resolve("sip:example.com"), Err(error));
        // Nor is one that is declined, where another is not known.
        let mut table = with_a_web_server()
            .srv(UDP, 0, 0, 0, ".")
            .failing(Kind::Srv, TCP, answer);
        assert_eq!(table.resolve("sip:example.com"), Err(error));
    }
}

#[test]
fn where_naptr_is_never_answered_srv_says_what_a_domain_has() {
    for answer in [Answer::Timeout, Answer::Failed] {
        let silent =
            |names: &[&str]| with_srv(names).failing(Kind::Naptr, "example.com", answer.clone());
        for (names, hops) in [
            (
                &[TLS, UDP, TCP][..],
                &["tls 192.0.2.1:5060 example.com"][..],
            ),
            (&[UDP, TCP], &["udp 192.0.2.1:5060", "tcp 192.0.2.1:5060"]),
            (&[UDP], &["udp 192.0.2.1:5060"]),
        ] {
            let found = silent(names).resolve("sip:example.com").unwrap();
            assert_eq!(found, hops, "{names:?}");
        }
        let secure = silent(&[TLS, UDP]).resolve("sips:example.com").unwrap();
        assert_eq!(secure, ["tls 192.0.2.1:5060 example.com"]);
        let none = silent(&[UDP, TCP]).resolve("sips:example.com");
        assert!(none.is_err(), "{none:?}");
    }
}

#[test]
fn who_keeps_tls_from_answering_gets_no_call_in_the_clear() {
    for answer in [Answer::Timeout, Answer::Failed] {
        // Nobody knows whether there are servers under TLS.
        let mut table = with_srv(&[UDP, TCP]).failing(Kind::Srv, TLS, answer.clone());
        assert!(table.resolve("sip:example.com").is_err());
        // There are, and nobody knows where.
        let mut table = with_srv(&[UDP, TCP])
            .srv(TLS, 0, 0, 5061, "tls.example.com")
            .failing(Kind::A, "tls.example.com", answer.clone());
        assert!(table.resolve("sip:example.com").is_err());
        // The domain prefers TLS by its own word.
        let mut table = with_srv(&[UDP])
            .naptr("example.com", 1, 1, "SIPS+D2T", TLS)
            .naptr("example.com", 2, 1, "SIP+D2U", UDP)
            .failing(Kind::Srv, TLS, answer.clone());
        assert!(table.resolve("sip:example.com").is_err());
        // It prefers UDP: then what is under TLS makes no difference.
        let mut table = with_srv(&[UDP])
            .naptr("example.com", 2, 1, "SIPS+D2T", TLS)
            .naptr("example.com", 1, 1, "SIP+D2U", UDP)
            .failing(Kind::Srv, TLS, answer.clone());
        let hops = table.resolve("sip:example.com").unwrap();
        assert_eq!(hops, ["udp 192.0.2.1:5060"]);
        // Among those in the clear one that is not known is passed over.
        let mut table = with_srv(&[TCP]).failing(Kind::Srv, UDP, answer);
        let hops = table.resolve("sip:example.com").unwrap();
        assert_eq!(hops, ["tcp 192.0.2.1:5060"]);
    }
}

#[test]
fn places_under_tls_and_in_the_clear_do_not_follow_each_other() {
    for (first, kind) in [("SIPS+D2T", "tls"), ("SIP+D2U", "udp"), ("SIP+D2T", "tcp")] {
        let mut table = with_srv(&[TLS, UDP, TCP]);
        for (services, name) in [("SIPS+D2T", TLS), ("SIP+D2U", UDP), ("SIP+D2T", TCP)] {
            let order = u16::from(services != first);
            table = table.naptr("example.com", order, 0, services, name);
        }
        let hops = table
            .resolve_with(query("sip:example.com"), Options::default(), &mut |_| 0)
            .unwrap();
        assert_eq!(hops[0].transport.uri_name(), kind);
        let is_secure = hops[0].transport.is_secure();
        let is_like_it = |hop: &Hop| hop.transport.is_secure() == is_secure;
        assert!(hops.iter().all(is_like_it), "{hops:?}");
        assert_eq!(hops.len(), if is_secure { 1 } else { 2 });
    }
}
