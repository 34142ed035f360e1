//! Phones of which the operator asks less.

use std::net::IpAddr;

use super::several::{Written, nonce_of};
use super::*;
use crate::Lenient;

const NEAR: &str = "10.1.0.7";

fn server_with(entry: Lenient) -> Authenticator {
    let config = AuthConfig {
        algorithms: vec![Algorithm::Sha256],
        authentication_info: true,
        lenient: vec![entry],
        ..AuthConfig::default()
    };
    Authenticator::new(config, &KEY, 1)
}

fn nearby() -> Lenient {
    Lenient {
        networks: vec!["10.1.0.0/16".parse().expect("a network")],
        ..Lenient::default()
    }
}

fn at(address: &str) -> Option<IpAddr> {
    Some(address.parse().expect("an address"))
}

/// The proof of alice, or why there is none.
fn proved(
    server: &Authenticator,
    message: &Message,
    source: Option<IpAddr>,
) -> Result<Authenticated, Option<Failure>> {
    match server.check_from(START_MS, message, Side::Registrar, &realm(), source) {
        Check::Lookup(pending) => {
            let set = Ha1Set::compute(pending.key().user(), b"example.org", PASSWORD.as_bytes());
            let reply = secret(&set, pending.key().algorithm());
            match server.finish(START_MS, pending, &reply) {
                Verdict::Ok(proof) => Ok(proof),
                Verdict::Challenge(why) => Err(Some(why)),
                Verdict::AskAgain(_) => panic!("the store itself has answered"),
            }
        }
        Check::Challenge(why) => Err(why),
        Check::Malformed(_) => Err(Some(Failure::Malformed)),
    }
}

fn offered(server: &Authenticator, claimant: &Claimant<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let mut writer = MessageWriter::response(&mut out, 401, "Unauthorized");
    let side = Side::Registrar;
    server.add_challenge(
        START_MS,
        side,
        "example.org",
        false,
        0,
        claimant,
        &mut writer,
    );
    writer.finish(b"");
    let text = String::from_utf8(out).expect("text");
    let named = text.split("algorithm=").skip(1);
    named
        .map(|rest| rest.split(',').next().expect("a name").to_owned())
        .collect()
}

#[test]
fn an_algorithm_is_offered_and_accepted_where_it_was_allowed_and_nowhere_else() {
    let server = server_with(Lenient {
        algorithms: vec![Algorithm::Md5, Algorithm::Sha256],
        ..nearby()
    });
    let near = Claimant {
        source: at(NEAR),
        ..Claimant::default()
    };
    assert_eq!(offered(&server, &near), ["MD5", "SHA-256"]);
    let far = Claimant {
        source: at("192.0.2.1"),
        user: b"alice",
        ..Claimant::default()
    };
    assert_eq!(offered(&server, &far), ["SHA-256"]);
    let nonce = nonce_of(&server, START_MS);
    let message = register(&Written::new(Algorithm::Md5, &nonce).line("REGISTER"));
    for source in [None, far.source] {
        let refused = proved(&server, &message, source);
        assert!(matches!(refused, Err(Some(Failure::NotOffered))));
    }
    assert!(proved(&server, &message, near.source).is_ok());
    // Nothing else changes: what was used is used.
    let again = proved(&server, &message, near.source);
    assert!(matches!(again, Err(Some(Failure::Replay))));
    assert!(
        server
            .config()
            .accepted()
            .eq([Algorithm::Sha256, Algorithm::Md5])
    );
}

#[test]
fn an_entry_for_a_user_is_for_the_name_that_he_gives() {
    let server = server_with(Lenient {
        users: vec!["alice".to_owned()],
        algorithms: vec![Algorithm::Md5],
        ..Lenient::default()
    });
    for (user, algorithms) in [("alice", ["MD5"]), ("bob", ["SHA-256"])] {
        let claimant = Claimant {
            user: user.as_bytes(),
            ..Claimant::default()
        };
        assert_eq!(offered(&server, &claimant), algorithms);
        let nonce = nonce_of(&server, START_MS);
        let written = Written {
            user,
            ..Written::new(Algorithm::Md5, &nonce)
        };
        let answer = proved(&server, &register(&written.line("REGISTER")), None);
        assert_eq!(answer.is_ok(), user == "alice");
    }
}

#[test]
fn a_digest_without_qop_is_good_once_for_each_nonce() {
    let server = server_with(Lenient {
        algorithms: vec![Algorithm::Md5],
        qop_optional: true,
        ..nearby()
    });
    let strict = server_with(Lenient {
        algorithms: vec![Algorithm::Md5],
        ..nearby()
    });
    let nonce = nonce_of(&server, START_MS);
    let old = Written {
        nc: None,
        ..Written::new(Algorithm::Md5, &nonce)
    };
    let counted = |nc: u32| Written {
        nc: Some(nc),
        ..old
    };
    let message = register(&old.line("REGISTER"));
    let refused = proved(&strict, &message, at(NEAR));
    assert!(matches!(refused, Err(Some(Failure::NotOffered))));
    let refused = proved(&server, &message, at("192.0.2.1"));
    assert!(matches!(refused, Err(Some(Failure::NotOffered))));
    let proof = proved(&server, &message, at(NEAR)).expect("let in");
    assert_eq!(proof.user(), b"alice");
    // RFC 2617 3.2.3 signs an answer with what only a digest with qop has.
    assert!(!proof.write_authentication_info(&mut Vec::new()));
    // No request follows with that nonce, with or without counts: he is given another,
    // and not asked for his password.
    for next in [old.line("INVITE"), counted(2).line("INVITE")] {
        let message = request("INVITE", "sip:example.org", &next, "");
        let stale = proved(&server, &message, at(NEAR)).err().flatten();
        assert!(stale.is_some_and(Failure::is_stale), "{next}");
    }
    // Whoever counted first may end so, once.
    let nonce = nonce_of(&server, START_MS);
    let old = Written {
        nonce: &nonce,
        ..old
    };
    let lines = [
        (Written { nc: Some(1), ..old }, true),
        (old, true),
        (old, false),
        (Written { nc: Some(2), ..old }, false),
    ];
    for (written, is_good) in lines {
        let answer = proved(&server, &register(&written.line("REGISTER")), at(NEAR));
        assert_eq!(answer.is_ok(), is_good, "{:?}", written.nc);
    }
    // A wrong one uses nothing up.
    let nonce = nonce_of(&server, START_MS);
    let right = Written {
        nonce: &nonce,
        ..old
    };
    let wrong = Written {
        password: "guess",
        ..right
    };
    let refused = proved(&server, &register(&wrong.line("REGISTER")), at(NEAR));
    assert!(matches!(refused, Err(Some(Failure::WrongPassword))));
    assert!(proved(&server, &register(&right.line("REGISTER")), at(NEAR)).is_ok());
}

#[test]
fn a_store_that_verifies_is_not_asked_about_a_digest_without_qop() {
    let config = AuthConfig {
        store_verifies: true,
        lenient: vec![Lenient {
            qop_optional: true,
            ..nearby()
        }],
        ..AuthConfig::default()
    };
    let server = Authenticator::new(config, &KEY, 1);
    let nonce = nonce_of(&server, START_MS);
    let old = Written {
        nc: None,
        ..Written::new(Algorithm::Md5, &nonce)
    };
    let refused = proved(&server, &register(&old.line("REGISTER")), at(NEAR));
    assert!(matches!(refused, Err(Some(Failure::NotOffered))));
}

#[test]
fn a_uri_of_the_same_host_is_enough_where_that_was_allowed() {
    let lenient = Lenient {
        uri_by_host: true,
        ..nearby()
    };
    // pyVoIP 1.6 writes the server's, whatever it asks for.
    let uri = "sip:EXAMPLE.org;transport=UDP";
    for (asked, written, is_good) in [
        ("sip:example.org", uri, true),
        ("sip:bob@example.org:5070", uri, true),
        ("sips:bob@example.org", uri, true),
        ("sip:bob@example.com", uri, false),
        ("tel:+1", uri, false),
        ("sip:bob@example.org", "tel:+1", false),
        ("sip:bob@example.org", "", false),
        ("sip:bob@example.org", "*", false),
    ] {
        let server = server_with(lenient.clone());
        let nonce = nonce_of(&server, START_MS);
        let credentials = Written {
            uri: written,
            ..Written::new(Algorithm::Sha256, &nonce)
        };
        let of = |method: &str| request(method, asked, &credentials.line("INVITE"), "");
        let far = proved(&server, &of("INVITE"), at("192.0.2.1"));
        assert!(matches!(far, Err(Some(Failure::Malformed))), "{asked}");
        // The method is covered all the same.
        assert!(proved(&server, &of("MESSAGE"), at(NEAR)).is_err());
        let near = proved(&server, &of("INVITE"), at(NEAR));
        assert_eq!(near.is_ok(), is_good, "{asked} {written}");
    }
}
