//! Several credentials in one request: each is judged by itself, and one is looked up.

use super::*;

/// Credentials as phones write them that are not our client.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    /// What the algorithm is called, and which it is.
    pub(super) label: &'a str,
    pub(super) algorithm: Algorithm,
    pub(super) nonce: &'a str,
    pub(super) uri: &'a str,
    /// The nonce count, with which `qop` comes.
    pub(super) nc: Option<u32>,
}

impl<'a> Written<'a> {
    pub(super) fn new(algorithm: Algorithm, nonce: &'a str) -> Self {
        Self {
            user: "alice",
            password: PASSWORD,
            label: algorithm.as_str(),
            algorithm,
            nonce,
            uri: "sip:example.org",
            nc: Some(1),
        }
    }

    /// The header line of a request of that method.
    pub(super) fn line(&self, method: &str) -> String {
        let h = |parts: &[&str]| {
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            let digest = hex(self.algorithm, &hash::joined(self.algorithm, &parts));
            String::from_utf8_lossy(digest.as_bytes()).into_owned()
        };
        let a1 = h(&[self.user, "example.org", self.password]);
        let a2 = h(&[method, self.uri]);
        let (response, more) = match self.nc {
            None => (h(&[&a1, self.nonce, &a2]), String::new()),
            Some(nc) => {
                let nc = format!("{nc:08x}");
                (
                    h(&[&a1, self.nonce, &nc, "c", "auth", &a2]),
                    format!(", qop=auth, nc={nc}, cnonce=\"c\""),
                )
            }
        };
        format!(
            "Authorization: Digest username=\"{}\", realm=\"example.org\", nonce=\"{}\", uri=\"{}\", \
             response=\"{response}\", algorithm={}{more}\r\n",
            self.user, self.nonce, self.uri, self.label
        )
    }
}

pub(super) fn nonce_of(server: &Authenticator, unix_ms: u64) -> String {
    let mut lines = Vec::new();
    server.write_challenge(unix_ms, Side::Registrar, "example.org", false, &mut lines);
    let lines = String::from_utf8(lines).expect("text");
    lines.split('"').nth(3).expect("a nonce").to_owned()
}

fn usual() -> Authenticator {
    Authenticator::new(AuthConfig::default(), &KEY, 1)
}

#[test]
fn an_md5_digest_that_is_called_sha_256_hides_no_good_one_and_is_no_400() {
    // JAIN-SIP 1.3 answers both challenges so; `npm sip` 0.0.6 sends the first alone.
    for wrong_is_first in [true, false] {
        let server = usual();
        let nonce = nonce_of(&server, START_MS);
        let good = Written::new(Algorithm::Md5, &nonce);
        let (wrong, good) = (
            Written {
                label: "SHA-256",
                ..good
            },
            good,
        );
        let mut lines = [wrong.line("REGISTER"), good.line("REGISTER")];
        if !wrong_is_first {
            lines.reverse();
        }
        let message = register(&lines.concat());
        assert_eq!(outcome(&server, START_MS, &message), alice());
        // What was used is stale, and the one beside it does not change that.
        assert_eq!(outcome(&server, START_MS, &message), STALE);
        let alone = register(&wrong.line("REGISTER"));
        assert_eq!(outcome(&server, START_MS, &alone), FRESH);
        let failed = server.check(START_MS, &alone, Side::Registrar, &realm());
        assert!(matches!(
            failed,
            Check::Challenge(Some(Failure::OtherAlgorithm))
        ));
    }
}

#[test]
fn whatever_is_wrong_in_itself_hides_nothing() {
    let good = |server: &Authenticator| {
        let nonce = nonce_of(server, START_MS);
        Written::new(Algorithm::Sha256, &nonce).line("REGISTER")
    };
    let server = usual();
    let old = nonce_of(&server, START_MS - 300_000);
    let fine = good(&server);
    for wrong in [
        "Authorization: Digest ,,\r\n".to_owned(),
        with_param(&fine, "nonce", "\"none-of-ours\""),
        with_param(&fine, "uri", "\"sip:elsewhere.example\""),
        with_param(&fine, "response", "\"00\""),
        with_param(&fine, "algorithm", "SHA-512-256"),
        with_param(&fine, "qop", ""),
        with_param(&fine, "username", ""),
        Written::new(Algorithm::Sha256, &old).line("REGISTER"),
    ] {
        for lines in [
            [wrong.clone(), good(&server)],
            [good(&server), wrong.clone()],
        ] {
            let message = register(&lines.concat());
            assert_eq!(outcome(&server, START_MS, &message), alice(), "{wrong}");
        }
    }
}

#[test]
fn of_several_that_are_all_wrong_a_nonce_that_is_too_old_is_what_the_phone_is_told() {
    let server = usual();
    let old = nonce_of(&server, START_MS - 300_000);
    let late = Written::new(Algorithm::Md5, &old);
    let named = Written {
        label: "SHA-256",
        ..late
    };
    let (late, named) = (late.line("REGISTER"), named.line("REGISTER"));
    let unread = "Authorization: Digest ,,\r\n".to_owned();
    for (lines, told) in [
        (vec![&named, &late], STALE),
        (vec![&late, &named], STALE),
        (vec![&unread, &named], FRESH),
        (vec![&named, &unread], FRESH),
        (
            vec![&unread, &unread],
            Outcome::Malformed("Malformed Authorization"),
        ),
    ] {
        let lines: String = lines.into_iter().map(String::as_str).collect();
        assert_eq!(outcome(&server, START_MS, &register(&lines)), told);
    }
}

#[test]
fn no_request_has_more_than_one_password_tried_or_many_credentials_judged() {
    let server = usual();
    let nonce = nonce_of(&server, START_MS);
    let right = Written::new(Algorithm::Md5, &nonce);
    let guess = Written {
        password: "guess",
        ..right
    };
    // The first that is good in itself is the one guess of a request.
    let message = register(&[guess.line("REGISTER"), right.line("REGISTER")].concat());
    assert_eq!(outcome(&server, START_MS, &message), FRESH);
    let wrong = Written {
        label: "SHA-256",
        ..right
    };
    for (count, expected) in [(JUDGED_MAX - 1, alice()), (JUDGED_MAX, FRESH)] {
        let lines = wrong.line("REGISTER").repeat(count) + &right.line("REGISTER");
        assert_eq!(outcome(&server, START_MS, &register(&lines)), expected);
    }
}
