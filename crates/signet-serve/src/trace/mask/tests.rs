use super::*;

fn header(line: &str) -> String {
    masked(format!("OPTIONS sip:a SIP/2.0\r\n{line}\r\n\r\n").as_bytes())
        .split_once('\n')
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn proofs_in_credentials_are_masked_and_the_rest_stays() {
    assert_eq!(
        header(
            "Authorization: Digest username=\"alice\", nonce=\"abc,=\\\"def\", response=\"0123\", uri=\"sip:x\", nc=00000001"
        ),
        "Authorization: Digest username=\"alice\", nonce=***, response=***, uri=\"sip:x\", nc=00000001"
    );
    assert_eq!(
        header("proxy-AUTHORIZATION : digest Response = 0123, qop=auth"),
        "proxy-AUTHORIZATION : digest Response = ***, qop=auth"
    );
    assert_eq!(
        header("WWW-Authenticate: Digest realm=\"r\",nonce=\"n\""),
        "WWW-Authenticate: Digest realm=\"r\",nonce=***"
    );
    assert_eq!(
        header("Authentication-Info: nextnonce=\"n\", rspauth=\"r\", cnonce=\"c\""),
        "Authentication-Info: nextnonce=***, rspauth=***, cnonce=\"c\""
    );
    assert_eq!(
        header("Proxy-Authentication-Info: rspauth=\"r\", qop=auth"),
        "Proxy-Authentication-Info: rspauth=***, qop=auth"
    );
}

#[test]
fn credentials_that_a_uri_asks_for_are_masked() {
    for (text, expected) in [
        (
            "Refer-To: <sip:a:secret@h?Subject=x&authorization=Digest%20response%3D1&To=y>",
            "Refer-To: <sip:a:***@h?Subject=x&authorization=***&To=y>",
        ),
        (
            "Refer-To: sip:h;method=REGISTER?Proxy-Authorization=key",
            "Refer-To: sip:h;method=REGISTER?Proxy-Authorization=***",
        ),
        (
            "Refer-To: <sips:a?b@h?%41uthorization=key>;x=y",
            "Refer-To: <sips:a?b@h?%41uthorization=***>;x=y",
        ),
        (
            "Contact: <sip:h?Authorization=>, <sip:h?Subject&=&&>",
            "Contact: <sip:h?Authorization=>, <sip:h?Subject&=&&>",
        ),
        (
            "Refer-To: <sip:b@h?Replaces=1@10.0.0.1&Authorization=Digest%20response%3D1>",
            "Refer-To: <sip:b@h?Replaces=1@10.0.0.1&Authorization=***>",
        ),
        (
            "Refer-To: <sip:h?Authorization=Digest username=\"a\", response=\"1\">;x=y",
            "Refer-To: <sip:h?Authorization=***>;x=y",
        ),
        (
            "Refer-To: <sip:h?Authorization=key&X=a:b@c>",
            "Refer-To: <sip:h?Authorization=***&X=a:***@c>",
        ),
        (
            "Refer-To: <sip:a:b@h?Authorization=k:e@y&Proxy-Authorization=z>",
            "Refer-To: <sip:a:******&Proxy-Authorization=***>",
        ),
    ] {
        assert_eq!(header(text), expected);
    }
    let line_ends = b"REFER sip:h SIP/2.0\r\nRefer-To: sip:h?authorization=key\r\nTo: x\r\n\r\n";
    let blotted = String::from_utf8(blotted(line_ends)).unwrap();
    assert!(blotted.contains("?authorization=***\r\nTo: x"), "{blotted}");
}

#[test]
fn a_folded_header_is_masked_to_its_end() {
    assert_eq!(
        header("Authorization: Digest username=\"alice\",\r\n response=\"0123\""),
        "Authorization: Digest username=\"alice\",\n response=***"
    );
    assert_eq!(
        header("Authorization: Bearer\r\n secret"),
        "Authorization: ***\n ***"
    );
}

#[test]
fn another_scheme_is_masked_whole() {
    assert_eq!(
        header("Authorization: Basic YWxpY2U6c2VjcmV0"),
        "Authorization: ***"
    );
}

#[test]
fn a_password_in_a_uri_is_masked() {
    assert_eq!(
        header("To: <sip:alice:secret@example.com:5060>;tag=1"),
        "To: <sip:alice:***@example.com:5060>;tag=1"
    );
    assert_eq!(
        header("To: <sip:alice@example.com:5060>"),
        "To: <sip:alice@example.com:5060>"
    );
    assert!(!masked(b"INVITE sips:a:secret@h SIP/2.0\r\n\r\n").contains("secret"));
    assert_eq!(
        header("Contact: <sips:a:first@h>, \"sip:x\" <sip:b,c;d:second@h:5060;x=y>"),
        "Contact: <sips:a:***@h>, \"sip:x\" <sip:b,c;d:***@h:5060;x=y>"
    );
}

#[test]
fn media_keys_are_masked() {
    let text = masked(b"INVITE sip:a SIP/2.0\r\n\r\nv=0\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1j|2^20\r\nk=base64:c2VjcmV0\r\na=ice-pwd:secret\r\n");
    assert_eq!(
        text,
        "INVITE sip:a SIP/2.0\n\nv=0\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:***\nk=base64:***\na=ice-pwd:***"
    );
}

#[test]
fn a_key_in_an_attribute_within_another_is_masked() {
    for (line, expected) in [
        (
            "a=acap:1 crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1j|2^20",
            "a=acap:1 crypto:1 AES_CM_128_HMAC_SHA1_80 inline:***",
        ),
        ("a=acap:2 key-mgmt:mikey AQAFgM0X", "a=acap:2 key-mgmt:***"),
        ("A=ACAP:3 ICE-PWD:secret", "A=ACAP:3 ICE-PWD:***"),
        ("a=acap:4 crypto:1 X other:key", "a=acap:4 crypto:***"),
        ("a=crypto:1 X other:key", "a=crypto:***"),
        ("a=key-mgmt:mikey AQ inline:x", "a=key-mgmt:***"),
        ("a=pcfg:1 t=1 a=1", "a=pcfg:1 t=1 a=1"),
        ("a=x:sip:u:pw@h inline:k", "a=x:sip:u:***@h inline:***"),
        ("i=inline:x", "i=inline:x"),
    ] {
        let text = masked(format!("INVITE sip:a SIP/2.0\r\n\r\n{line}\r\n").as_bytes());
        assert_eq!(text, format!("INVITE sip:a SIP/2.0\n\n{expected}"));
    }
}

#[test]
fn a_password_in_a_uri_of_another_scheme_is_masked() {
    for (line, expected) in [
        (
            "Alert-Info: <https://bob:secret@host/ring.wav>;x=y",
            "Alert-Info: <https://bob:***@host/ring.wav>;x=y",
        ),
        (
            "Call-Info: http://x:sip:a@h?Authorization=Digest%20secret",
            "Call-Info: http://x:***@h?Authorization=***",
        ),
        (
            "Call-Info: <http://:secret@h>, <ftp://a:b:c@d@h/e:f@g>",
            "Call-Info: <http://:***@h>, <ftp://a:***@h/e:f@g>",
        ),
        (
            "Error-Info: <https://host:8443/a?b:c@d>, <http://[::1]:80#x:y@z>",
            "Error-Info: <https://host:8443/a?b:c@d>, <http://[::1]:80#x:y@z>",
        ),
    ] {
        assert_eq!(header(line), expected);
    }
}

#[test]
fn a_message_in_a_body_is_masked_too() {
    let text = masked(
        b"NOTIFY sip:a SIP/2.0\r\n\r\nSIP/2.0 200 OK\r\nAuthorization: Digest response=\"0123\"\r\n\r\n",
    );
    assert!(
        text.ends_with("Authorization: Digest response=***"),
        "{text}"
    );
}

#[test]
fn what_is_blotted_out_keeps_its_length_and_form() {
    for (message, expected) in [
        (
            "REGISTER sip:a:secret@h SIP/2.0\r\nAuthorization: Digest username=\"a\", nonce=\"n\\\"1\", response=\"0123\", nc=1\r\n\r\n",
            "REGISTER sip:a:******@h SIP/2.0\r\nAuthorization: Digest username=\"a\", nonce=\"****\", response=\"****\", nc=1\r\n\r\n",
        ),
        (
            "REGISTER sip:a:secret@h SIP/2.0\r\nAuthorization: Digest uri=\"sip:a:secret@h\", opaque=\"sip:a:b@c\", realm=r\r\nTo: <sip:a:secret@h>\r\n\r\n",
            "REGISTER sip:a:******@h SIP/2.0\r\nAuthorization: Digest uri=\"sip:a:******@h\", opaque=\"*********\", realm=r\r\nTo: <sip:a:******@h>\r\n\r\n",
        ),
        (
            "A b SIP/2.0\r\nAuthorization: Digest response=\r\n \"0123\", nonce\r\n\t= n1,opaque=\"o1\r\n o2\"\r\nTo: x\r\n\r\n",
            "A b SIP/2.0\r\nAuthorization: Digest response=\r\n \"****\", nonce\r\n\t= **,opaque=\"**\r\n **\"\r\nTo: x\r\n\r\n",
        ),
        (
            "A b SIP/2.0\nAuthorization: Digest response=0123\n ,nonce=n1\r\n",
            "A b SIP/2.0\nAuthorization: Digest response=****\n ,nonce=**\r\n",
        ),
        (
            "A b SIP/2.0\r\nAuthorization: Bearer\r\n key\r\nTo: x\r\n\r\nk=base64:c2V\r\na=x\r\n",
            "A b SIP/2.0\r\nAuthorization: ******\r\n ***\r\nTo: x\r\n\r\nk=base64:***\r\na=x\r\n",
        ),
    ] {
        let blotted = blotted(message.as_bytes());
        assert_eq!(String::from_utf8(blotted).unwrap(), expected);
    }
}

/// The same as `uri_passwords`, each URI on its own: what is told there must be told by this.
fn one_by_one(line: &[u8]) -> Vec<Range<usize>> {
    let mut told = Vec::new();
    let mut at = 0;
    while let Some(start) = uri_start(line, at) {
        at = start;
        let rest = &line[start..];
        let is_end = |byte: &u8| b">\" \t".contains(byte);
        let uri = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
        let host = uri.iter().rposition(|byte| *byte == b'@').unwrap_or(0);
        let user = uri.iter().position(|byte| *byte == b':');
        let mut found = Vec::new();
        if let Some(user) = user.filter(|user| *user < host) {
            found.push(start + user + 1..start + host);
        }
        let mut from = start;
        for header in uri.split(|byte| matches!(byte, b'?' | b'&')) {
            let equals = header.iter().position(|byte| *byte == b'=').unwrap_or(0);
            let name = &header[..equals];
            if name.contains(&b'%') || is_credential(name) {
                let value = &line[from + equals + 1..];
                let is_end = |byte: &u8| matches!(byte, b'>' | b'&');
                let end = value.iter().position(is_end).unwrap_or(value.len());
                let len = value[..end].trim_ascii_end().len();
                found.push(from + equals + 1..from + equals + 1 + len);
            }
            from += header.len() + 1;
        }
        found.sort_by_key(|one| one.start);
        for Range { start, end } in found {
            let start = start.max(at);
            if start < end {
                told.push(start..end);
                at = end;
            }
        }
    }
    told
}

#[test]
fn uris_in_each_other_hide_nothing() {
    const WORDS: [&str; 16] = [
        "sip:",
        "SIPS:",
        "a",
        ":",
        "@",
        "?",
        "&",
        "=",
        "%",
        "%=",
        ">",
        "\"",
        " ",
        "\t",
        "\x0c",
        "Authorization=",
    ];
    let mut seed = 1u32;
    let mut any = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    for _ in 0..50_000 {
        let mut line = String::new();
        for _ in 0..any(20) {
            line.push_str(WORDS[any(WORDS.len())]);
        }
        let mut told = Vec::new();
        uri_passwords(line.as_bytes(), &mut |secret| told.push(secret));
        assert_eq!(told, one_by_one(line.as_bytes()), "{line:?}");
    }
}

/// Would take minutes if each URI, or each header in one, were looked through to its end.
#[test]
fn a_line_of_uris_in_each_other_takes_no_longer_than_another() {
    for part in [
        "sip:",
        "sip:h?%=",
        "sip:a:b@",
        "sip:h?%=? ",
        "sip:x=",
        "?%=",
        ">://a:b@",
    ] {
        let line = format!("To: <sip:{}", part.repeat(64 * 1024 / part.len()));
        for _ in 0..20 {
            let mut secrets = Vec::new();
            uri_passwords(line.as_bytes(), &mut |secret| secrets.push(secret));
            assert_eq!(secrets.is_empty(), !part.contains(['%', '@']), "{part}");
        }
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    assert_eq!(header("Subject: \x1b[2J"), "Subject: \\u{1b}[2J");
}

#[test]
fn any_bytes_can_be_masked() {
    for first in 0..=255u8 {
        for second in [b'=', b'"', b':', b'@', b'\\', 0xc3] {
            let short = vec![b'A', first, second, b'\n', first, second];
            let proof = format!(
                "Authorization: Digest response={}{}",
                first as char, second as char
            );
            for message in [short, proof.into_bytes()] {
                let _ = masked(&message);
                assert_eq!(blotted(&message).len(), message.len());
            }
        }
    }
}
