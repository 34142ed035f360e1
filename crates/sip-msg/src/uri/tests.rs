use super::*;

fn parse(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a URI"))
}

fn aor(text: &str) -> String {
    let mut out = Vec::new();
    parse(text).write_aor(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn parts() {
    let uri =
        // RFC 3261 8.1.1.2: "All SIP implementations MUST support the SIP URI scheme." and "Any
        // implementation that supports TLS MUST support the SIPS URI scheme."
        // RFC 3261 26.3.1: "All SIP elements that support TLS MUST also support the SIPS URI scheme."
        parse("SIPS:alice:secret@[2001:db8::1]:5071;transport=TCP;lr?subject=x&priority=urgent");
    assert_eq!(uri.scheme, Scheme::Sips);
    assert_eq!(uri.user, Some(&b"alice"[..]));
    assert_eq!(uri.password, Some(&b"secret"[..]));
    assert_eq!(
        uri.host_port,
        HostPort {
            host: b"[2001:db8::1]",
            port: Some(5071)
        }
    );
    assert_eq!(
        uri.host_port.ip(),
        Some("2001:db8::1".parse().expect("an address"))
    );
    assert_eq!(uri.params, b";transport=TCP;lr");
    assert_eq!(uri.headers, b"subject=x&priority=urgent");
    assert_eq!(uri.param("LR"), Some(&b""[..]));
    assert_eq!(uri.transport(), Some(Some(crate::Transport::Tcp)));
    assert_eq!(uri.param("maddr"), None);
    assert!(uri.has_param("transport") && uri.is_sip());
}

#[test]
fn the_torture_of_rfc_4475() {
    let uri = parse(
        "sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com",
    );
    assert_eq!(
        uri.user,
        Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..])
    );
    assert_eq!(
        uri.password,
        Some(&b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"[..])
    );
    assert_eq!(
        parse("sip:user;par=u%40example.net@example.com").user,
        Some(&b"user;par=u%40example.net"[..])
    );
    assert_eq!(
        aor("sip:user;par=u%40example.net@example.com"),
        "sip:user;par=u@example.net@example.com"
    );
    assert_eq!(
        aor("sip:sips%3Auser%40example.com@example.net"),
        "sip:sips:user@example.com@example.net"
    );
    assert_eq!(
        aor("sip:null-%00-null@example.com"),
        "sip:null-\0-null@example.com"
    );
    let escaped = parse("sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31");
    assert!(escaped.has_param("lr"));
    assert_eq!(escaped.param("name"), Some(&b"v%61lue%25%34%31"[..]));
    assert_eq!(parse("soap.beep://192.0.2.103:3002").scheme, Scheme::Other);
    assert_eq!(parse("isbn:2983792873").scheme, Scheme::Other);
}

#[test]
fn telephone_numbers() {
    let uri = parse("tel:+1-201-555-0123;ext=5");
    assert_eq!(uri.scheme, Scheme::Tel);
    assert_eq!(uri.user, Some(&b"+1-201-555-0123"[..]));
    assert_eq!(uri.params, b";ext=5");
    assert_eq!(aor("TEL:+1-(201).555-0123"), "tel:+12015550123");
    assert_eq!(aor("tel:*67#;phone-context=example.com"), "tel:*67#");
    for bad in ["tel:", "tel:+", "tel:--", "tel:12x", "tel:1;", "tel:1 2"] {
        assert!(Uri::parse(bad.as_bytes()).is_none(), "{bad}");
    }
}

#[test]
fn what_is_no_uri() {
    for bad in [
        "",
        "sip",
        "sip:",
        // RFC 3261 19.1.1: "If the @ sign is present in a SIP or SIPS URI, the user field MUST NOT be
        // empty."
        "sip:@h",
        "sip:a@",
        "sip:a@b@c",
        // RFC 3261 19.1.2: "Excluded US-ASCII characters (RFC 2396 [5]), such as space and control
        // characters and characters used as URI delimiters, also MUST be escaped." and "URIs MUST NOT
        // contain unescaped space and control characters." and "All other characters MUST be escaped."
        "sip:a b@c",
        "sip:a@b c",
        "sip:a@b;",
        "sip:a@b;;x",
        "sip:a@b;=x",
        "sip:a@b;x=",
        "sip:a@b?",
        "sip:a@b?x",
        "sip:a@b?x=1&",
        "sip:a@b?=1",
        "sip:a@b:",
        "sip:a@b:0",
        "sip:a@b:65536",
        "sip:a@b:99999999999999999999",
        "sip:a@b:5060x",
        // RFC 3261 19.1.2: "Expanding the hname and hvalue tokens in Section 25 show that all URI reserved
        // characters in header field names and values MUST be escaped."
        "sip:a@b?x=a;b",
        "sip:a@b?x=a@b",
        "sip:a@b?x=a,b",
        // RFC 3261 19.1.2: "Any characters occurring in a telephone-subscriber that do not appear in an
        // expansion of the BNF for the user rule MUST be escaped."
        "sip:+1;x=\"y\"@b",
        // RFC 3261 19.1.2: "Current implementations MUST NOT attempt to improve robustness by treating
        // received escaped characters in the host component as literally equivalent to their unescaped
        // counterpart."
        "sip:a@%62.c",
        "sip:a%4@b",
        "sip:a%zz@b",
        "sip:a%@b",
        "sip:a@[::1",
        "sip:a@[::g]",
        "sip:a@[]",
        "sip:a@::1",
        "sip:a@192.0.2.256",
        "sip:a@1.2.3",
        "sip:a@1.2.3.4.5",
        "sip:a@.b",
        "sip:a@b..c",
        "sip:a@b..",
        "sip:\"a\"@b",
        "sip:<a>@b",
        "sip:a\u{e9}@b",
        "sip:a@b\0",
        "<sip:a@b>",
        "1sip:a@b",
        "x y:z",
        ":a",
        "sip:a:p:q@b",
        "http:",
        "http://a b",
        "sip:a@b;x=\"y\"",
        "sip:a@b;x=y%2",
    ] {
        assert!(Uri::parse(bad.as_bytes()).is_none(), "{bad}");
    }
    for good in [
        "sip:h",
        "sip:a@b.",
        "sip:#21#@h",
        "sip:a@h_1",
        "sip:a@1and1.com",
        "sip:a@b;x=[y]",
        "sip:a:@b",
        "sip:a@b?x=",
    ] {
        parse(good);
    }
}

#[test]
fn what_may_stand_in_a_request_line() {
    for (uri, line) in [
        ("sip:a@b", "sip:a@b"),
        (
            "sip:a@b;transport=tcp;maddr=c;ttl=1;user=phone;new=x;lr?X=y",
            // RFC 3261 19.1.5: "An implementation MUST include any provided transport, maddr, ttl, or
            // user parameter in the Request-URI of the formed request." and "Unknown URI parameters
            // MUST be placed in the message's Request-URI."
            "sip:a@b;transport=tcp;maddr=c;ttl=1;user=phone;new=x;lr",
        ),
        // RFC 3261 19.1.5: "The method parameter MUST NOT be placed in the Request-URI."
        ("sip:a@b;x;Method=BYE;y=z", "sip:a@b;x;y=z"),
        ("sip:a@b;m%65thod=BYE?X=y", "sip:a@b"),
        ("tel:+1;method=2;ext=3", "tel:+1;ext=3"),
    ] {
        let mut out = Vec::new();
        parse(uri).write_request_uri(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), line);
    }
}

#[test]
fn a_uri_has_a_bounded_number_of_parts() {
    let with = |count: usize| format!("sip:h{}", ";p".repeat(count));
    assert!(Uri::parse(with(Uri::PARTS_MAX).as_bytes()).is_some());
    assert!(Uri::parse(with(Uri::PARTS_MAX + 1).as_bytes()).is_none());
}

#[test]
fn equal_uris() {
    // RFC 3261 19.1.4, the examples.
    for (left, right) in [
        (
            "sip:%61lice@atlanta.com;transport=TCP",
            "sip:alice@AtLanTa.CoM;Transport=tcp",
        ),
        // RFC 3261 19.1.1: "Since the uri-parameter mechanism is extensible, SIP elements MUST silently
        // ignore any uri-parameters that they do not understand."
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
        (
            "sip:carol@chicago.com;newparam=5",
            "sip:carol@chicago.com;security=on",
        ),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
        ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0::1]"),
        ("tel:+1-201", "tel:+1201"),
    ] {
        assert!(parse(left).equals(&parse(right)), "{left} {right}");
        assert!(parse(right).equals(&parse(left)), "{right} {left}");
    }
}

#[test]
fn unequal_uris() {
    // RFC 3261 19.1.4, the examples, and: "A SIP and SIPS URI are never equivalent."
    for (left, right) in [
        (
            "SIP:ALICE@AtLanTa.CoM;Transport=udp",
            "sip:alice@AtLanTa.CoM;Transport=UDP",
        ),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        (
            "sip:bob@biloxi.com",
            "sip:bob@biloxi.com:6000;transport=tcp",
        ),
        (
            "sip:carol@chicago.com",
            // RFC 3261 19.1.4: "Any present header component MUST be present in both URIs and match for
            // the URIs to match."
            "sip:carol@chicago.com?Subject=next%20meeting",
        ),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        (
            "sip:carol@chicago.com;security=on",
            "sip:carol@chicago.com;security=off",
        ),
        ("sip:a@b", "sips:a@b"),
        ("sip:a@b", "sip:b"),
        ("sip:a:x@b", "sip:a@b"),
        ("sip:a@b;maddr=c", "sip:a@b"),
        ("sip:a@b;user=phone", "sip:a@b"),
        ("sip:a@b;ttl=1", "sip:a@b"),
        ("sip:a@b;method=INVITE", "sip:a@b"),
        // An escape of a reserved character is another character.
        ("sip:a%3Bb@c", "sip:a;b@c"),
        ("tel:+1201", "tel:1201"),
        ("tel:+1201;ext=1", "tel:+1201"),
    ] {
        assert!(!parse(left).equals(&parse(right)), "{left} {right}");
        assert!(!parse(right).equals(&parse(left)), "{right} {left}");
    }
}

#[test]
fn addresses_of_record() {
    // RFC 3261 10.3: "The URI MUST then be converted to a canonical form.  To do that, all URI
    // parameters MUST be removed (including the user-param), and any escaped characters MUST be
    // converted to their unescaped form."
    assert_eq!(
        aor("sip:Ali%63e:pw@Atlanta.COM.:5060;user=phone?x=y"),
        "sip:Alice@atlanta.com"
    );
    assert_eq!(aor("SIPS:bob@h"), "sips:bob@h");
    assert_eq!(aor("sip:h"), "sip:h");
}

#[test]
fn addresses() {
    let ip = |host: &'static str| {
        HostPort {
            host: host.as_bytes(),
            port: None,
        }
        .ip()
        .map(|ip| ip.to_string())
    };
    assert_eq!(ip("192.0.2.1").as_deref(), Some("192.0.2.1"));
    assert_eq!(ip("[::1]").as_deref(), Some("::1"));
    assert_eq!(ip("[192.0.2.1]"), None);
    assert_eq!(ip("example.com"), None);
    assert_eq!(ip("abc.de"), None);
}

#[test]
fn a_host_is_an_address_where_the_standard_library_says_so() {
    const PARTS: [&str; 11] = [
        "0", "00", "7", "07", "10", "99", "100", "255", "256", "1000", "",
    ];
    let mut addresses = 0;
    for nth in 0..PARTS.len().pow(4) {
        let part = |place: u32| PARTS[nth / PARTS.len().pow(place) % PARTS.len()];
        for text in [
            format!("{}.{}.{}.{}", part(3), part(2), part(1), part(0)),
            format!("{}.{}.{}{}", part(3), part(2), part(1), part(0)),
        ] {
            let expected: Option<std::net::Ipv4Addr> = text.parse().ok();
            let host_port = format!("{text}:5060");
            let ip = HostPort::parse(host_port.as_bytes()).and_then(|parsed| parsed.ip());
            assert_eq!(ip, expected.map(Into::into), "{text}");
            addresses += u32::from(expected.is_some());
        }
    }
    assert!(addresses > 1_000, "{addresses} addresses among them");
}
