//! The form in which addresses-of-record are kept, stored and looked up.

use sip_msg::Uri;

use crate::Settings;
use crate::own::Own;

/// Appends the canonical address-of-record that a URI of ours names:
/// `sip:user@domain`, the user unescaped, the domain in lower case. `false`,
/// and nothing appended, for a URI that names no user of ours.
///
/// A listener's address stands for the default domain, so that a phone that
/// was told only an address is the same user as one that was told the name.
/// `sips:` is the same user too: whether a contact may be used for a `sips:`
/// call depends on the contact, not on the form in which its user was named.
pub(crate) fn write_aor(settings: &Settings, own: &Own, uri: &Uri<'_>, out: &mut Vec<u8>) -> bool {
    let host = uri.host_port.host;
    let domain = own.domain(host);
    let is_user = uri.is_sip() && uri.user.is_some();
    if !is_user || (domain.is_none() && !own.is_own_host(host)) {
        return false;
    }
    // RFC 3261 10.3: "The URI MUST then be converted to a canonical form.  To do that, all URI
    // parameters MUST be removed (including the user-param), and any escaped characters MUST be
    // converted to their unescaped form."
    out.extend_from_slice(b"sip:");
    uri.write_user(out);
    out.push(b'@');
    match domain.or(settings.domains.first()) {
        Some(domain) => out.extend_from_slice(domain.as_bytes()),
        None => {
            let host = host.strip_suffix(b".").unwrap_or(host);
            out.extend(host.iter().map(u8::to_ascii_lowercase));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Listener;
    use sip_msg::Transport;

    fn aor(uri: &str) -> Option<String> {
        let settings = Settings {
            domains: vec!["example.org".into(), "example.net".into()],
            listeners: vec![Listener {
                transport: Transport::Udp,
                bound: "192.0.2.1:5060".parse().unwrap(),
                advertised_host: None,
                advertised_port: 5060,
                certificates_authenticate: false,
            }],
            ..Settings::default()
        };
        let mut out = Vec::new();
        let uri = Uri::parse(uri.as_bytes()).unwrap();
        let is_ours = write_aor(&settings, &Own::new(&settings), &uri, &mut out);
        assert_eq!(is_ours, !out.is_empty());
        is_ours.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn one_user_has_one_form() {
        // RFC 3261 10.3: "The URI MUST then be converted to a canonical form.  To do that, all URI
        // parameters MUST be removed (including the user-param), and any escaped characters MUST be
        // converted to their unescaped form."
        for spelling in [
            "sip:alice@example.org",
            "sips:alice@EXAMPLE.org:5061",
            "sip:%61lic%65@example.org.;transport=tcp;user=phone",
            "sip:alice:secret@192.0.2.1:5070",
        ] {
            assert_eq!(
                aor(spelling).as_deref(),
                Some("sip:alice@example.org"),
                "{spelling}"
            );
        }
        assert_eq!(
            aor("sip:Alice@example.net").as_deref(),
            Some("sip:Alice@example.net")
        );
    }

    #[test]
    fn others_have_none() {
        for other in [
            "sip:example.org",
            "sip:alice@example.com",
            "sip:alice@192.0.2.2",
            "tel:+4912345",
            "mailto:a@example.org",
        ] {
            assert_eq!(aor(other), None, "{other}");
        }
    }
}
