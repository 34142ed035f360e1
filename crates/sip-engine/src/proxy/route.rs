//! Route information preprocessing (RFC 3261 16.4).
//!
//! Nothing is rewritten here: the outcome says which parts of the request
//! count, and forwarding leaves out the others.

use sip_msg::uri::Scheme;
use sip_msg::{Flow, HeaderName, HostPort, Message, Span, Uri};
use smallvec::SmallVec;

use crate::own::{Own, uri_port, uri_transport};
use crate::token::{RouteToken, Tokens};

/// The routes behind ours, in their order: mostly none or one.
pub(crate) type Behind<'m> = SmallVec<[Uri<'m>; 2]>;

/// Which parts of a request count after the preprocessing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed {
    /// Where the Request-URI stands: in the first line, or, where a strict
    /// router sent the request, in the last Route.
    pub(crate) uri: Span,
    /// That URI's scheme.
    pub(crate) scheme: Scheme,
    /// Its other parts; `None` where it cannot be read.
    parts: Option<UriParts>,
    /// Whether its `maddr`, port and transport are to be left out.
    pub(crate) strip_maddr: bool,
    /// How many Route values at the front are this server's own.
    pub(crate) own_routes: u16,
    /// Whether the last Route value became the Request-URI.
    pub(crate) last_route_is_uri: bool,
    /// The URI in the first Route value that remains.
    pub(crate) next_route: Option<Span>,
    /// The token in the innermost of our Route values, where it is this
    /// dialog's and this sender's.
    pub(crate) grant: Option<RouteToken>,
}

/// Where the parts of a URI stand in the message, so that it is parsed once.
#[derive(Clone, Copy, Debug)]
struct UriParts {
    user: Option<Span>,
    password: Option<Span>,
    host: Span,
    port: Option<u16>,
    params: Span,
    headers: Span,
}

impl Default for Routed {
    fn default() -> Self {
        Self {
            uri: Span::default(),
            scheme: Scheme::Other,
            parts: None,
            strip_maddr: false,
            own_routes: 0,
            last_route_is_uri: false,
            next_route: None,
            grant: None,
        }
    }
}

impl Routed {
    /// Whether only TLS will do (RFC 3261 26.2.2).
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == Scheme::Sips
    }

    /// Whether the request follows a route that passes this server.
    pub(crate) fn is_on_our_route(&self) -> bool {
        self.own_routes > 0 || self.last_route_is_uri
    }

    /// The Request-URI, as it is after the preprocessing. Where `maddr` is left out it
    /// has no port and no parameters, but in `raw`: so nobody is led or judged by them.
    pub(crate) fn uri<'m>(&self, request: &'m Message) -> Option<Uri<'m>> {
        let parts = self.parts.as_ref()?;
        let (port, params) = match self.strip_maddr {
            true => (None, &b""[..]),
            false => (parts.port, request.slice(parts.params)),
        };
        Some(Uri {
            scheme: self.scheme,
            user: parts.user.map(|span| request.slice(span)),
            password: parts.password.map(|span| request.slice(span)),
            host_port: HostPort {
                host: request.slice(parts.host),
                port,
            },
            params,
            headers: request.slice(parts.headers),
            raw: request.slice(self.uri),
        })
    }

    /// Takes `uri`, which stands at `span`, as the Request-URI.
    fn take_uri<'m>(&mut self, uri: Uri<'m>, span: Span) -> Uri<'m> {
        let raw = uri.raw;
        let part_span = |part: &[u8]| span_of(raw, span, part);
        self.uri = span;
        self.scheme = uri.scheme;
        self.parts = Some(UriParts {
            user: uri.user.map(part_span),
            password: uri.password.map(part_span),
            host: part_span(uri.host_port.host),
            port: uri.host_port.port,
            params: part_span(uri.params),
            headers: part_span(uri.headers),
        });
        uri
    }
}

/// A Route value that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadRoute;

/// Finds out which parts of a request count.
pub(crate) fn preprocess(
    request: &Message,
    came_by: &Flow,
    own: &Own,
    tokens: &Tokens,
) -> Result<Routed, BadRoute> {
    // RFC 3261 16.4: "The proxy MUST inspect the Request-URI of the request."
    let mut routed = Routed::default();
    let has_routes = request.has(HeaderName::Route);
    let Ok(uri) = request.uri() else {
        return Ok(routed);
    };
    let mut uri = routed.take_uri(uri, request.request_uri_span());
    // RFC 3261 16.4: "If the Request-URI of the request contains a value this proxy
    // previously placed into a Record-Route header field (see Section 16.6 item 4), the
    // proxy MUST replace the Request-URI in the request with the last value from the
    // Route header field, and remove that value from the Route header field.  The proxy
    // MUST then proceed as if it received this modified request."
    // What this proxy placed names this server, and bears a token or no user.
    let mut innermost = None;
    if has_routes && uri.has_param("lr") && own.is_own_uri(&uri) && may_be_placed(&uri) {
        let last = addresses(request).last();
        if let Some(last) = last {
            let span = last.ok_or(BadRoute)?;
            innermost = Some(uri);
            let last = Uri::parse(request.slice(span)).ok_or(BadRoute)?;
            uri = routed.take_uri(last, span);
            routed.last_route_is_uri = true;
        }
    }
    if has_routes {
        skip_own_routes(&mut routed, request, innermost, own, tokens)?;
    }
    routed.strip_maddr = !uri.params.is_empty() && is_maddr_ours(&uri, came_by, own);
    Ok(routed)
}

/// Whether a URI of this server's looks like a Record-Route of its own.
fn may_be_placed(uri: &Uri<'_>) -> bool {
    uri.user.is_none_or(Tokens::looks_granted)
}

// RFC 3261 16.4: "If the first value in the Route header field indicates this proxy,
// the proxy MUST remove that value from the request." Both values of a double
// Record-Route are ours; the inner one names the side that the request leaves by, and
// its token alone counts. `innermost` is the value that a strict router took out.
fn skip_own_routes<'m>(
    routed: &mut Routed,
    request: &'m Message,
    mut innermost: Option<Uri<'m>>,
    own: &Own,
    tokens: &Tokens,
) -> Result<(), BadRoute> {
    let remaining = match routed.last_route_is_uri {
        true => request.values(HeaderName::Route).count() - 1,
        false => usize::MAX,
    };
    for route in addresses(request).take(remaining) {
        let span = route.ok_or(BadRoute)?;
        let uri = Uri::parse(request.slice(span)).ok_or(BadRoute)?;
        if !own.is_own_uri(&uri) {
            // After a restart an address at which this server was not reached yet is known
            // by the token alone.
            let number = usize::from(routed.own_routes);
            if let Some(grant) = read_unknown(&uri, request, number, remaining, tokens) {
                routed.own_routes = routed.own_routes.saturating_add(1);
                routed.grant = Some(grant);
                routed.next_route = addresses(request).take(remaining).nth(number + 1).flatten();
                return Ok(());
            }
            routed.next_route = Some(span);
            break;
        }
        routed.own_routes = routed.own_routes.saturating_add(1);
        innermost = Some(uri);
    }
    let is_within = || request.to_tag().is_some();
    if let Some(user) = innermost.and_then(|uri| uri.user)
        && is_within()
        && let Some(behind) = behind(request, usize::from(routed.own_routes), remaining)
    {
        routed.grant = tokens.read_grant(user, request, &behind);
    }
    Ok(())
}

/// The token of a Route value, the one with that number, that names no address
/// of ours, where it is this sender's all the same.
fn read_unknown(
    uri: &Uri<'_>,
    request: &Message,
    number: usize,
    remaining: usize,
    tokens: &Tokens,
) -> Option<RouteToken> {
    let user = uri.user.filter(|user| Tokens::looks_granted(user))?;
    request.to_tag()?;
    let behind = behind(request, number + 1, remaining)?;
    tokens.read_grant(user, request, &behind)
}

/// The Route values from the one with that number on, of the first `remaining`; `None` where one of
/// them cannot be read.
fn behind(request: &Message, number: usize, remaining: usize) -> Option<Behind<'_>> {
    let behind = addresses(request).take(remaining).skip(number);
    behind
        .map(|span| Uri::parse(request.slice(span?)))
        .collect()
}

/// Where the URIs of the Route values stand.
fn addresses(request: &Message) -> impl Iterator<Item = Option<Span>> {
    request.addresses(HeaderName::Route).map(|address| {
        let (address, span) = address.ok()?;
        Some(span_of(request.slice(span), span, address.uri))
    })
}

/// Where `part`, a slice of `whole`, stands in the message that has `whole` at
/// `span`; empty for any other slice.
pub(crate) fn span_of(whole: &[u8], span: Span, part: &[u8]) -> Span {
    let offset = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize);
    match offset {
        Some(offset) if offset + part.len() <= whole.len() => {
            let start = span.start + offset as u32;
            Span {
                start,
                end: start + part.len() as u32,
            }
        }
        _ => Span::default(),
    }
}

/// RFC 3261 16.4: "If the Request-URI contains a maddr parameter, the proxy MUST check to
/// see if its value is in the set of addresses or domains the proxy is configured to
/// be responsible for.  If the Request-URI has a maddr parameter with a value the
/// proxy is responsible for, and the request was received using the port and
/// transport indicated (explicitly or by default) in the Request-URI, the proxy MUST
/// strip the maddr and any non-default port or transport parameter and continue
/// processing as if those values had not been present in the request."
fn is_maddr_ours(uri: &Uri<'_>, came_by: &Flow, own: &Own) -> bool {
    let Some(maddr) = uri.param("maddr") else {
        return false;
    };
    let transport = uri_transport(uri).unwrap_or(sip_msg::Transport::Udp);
    own.is_own_host(maddr)
        && came_by.local.port() == uri_port(uri)
        && came_by.transport == transport
}

/// Writes a URI without `maddr`, `transport` and port.
pub(crate) fn write_without_maddr(uri: &Uri<'_>, out: &mut Vec<u8>) {
    let scheme_end = memchr_colon(uri.raw).map_or(0, |colon| colon + 1);
    out.extend_from_slice(uri.raw.get(..scheme_end).unwrap_or_default());
    if let Some(user) = uri.user {
        out.extend_from_slice(user);
        if let Some(password) = uri.password {
            out.push(b':');
            out.extend_from_slice(password);
        }
        out.push(b'@');
    }
    out.extend_from_slice(uri.host_port.host);
    // Found as whoever reads them finds them: an escape in a name hides none.
    for param in uri.params() {
        if !param.is_named("maddr") && !param.is_named("transport") {
            out.push(b';');
            param.write(out);
        }
    }
}

fn memchr_colon(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_with_maddr_is_found_however_its_name_is_written() {
        // RFC 3261 16.4: "the proxy MUST strip the maddr and any non-default port or transport
        // parameter"
        for (uri, left) in [
            ("sip:a@b:5070;maddr=c;transport=tcp;x", "sip:a@b;x"),
            ("sip:a@b;m%61ddr=c;x", "sip:a@b;x"),
            (
                "sip:a:p@b;y=%41;MADD%52=c;tr%61nsport=udp",
                "sip:a:p@b;y=%41",
            ),
            ("sips:b;lr;maddrs=c;maddr=c?h=i", "sips:b;lr;maddrs=c"),
        ] {
            let uri = Uri::parse(uri.as_bytes()).unwrap();
            let mut text = Vec::new();
            write_without_maddr(&uri, &mut text);
            assert_eq!(String::from_utf8_lossy(&text), left);
        }
    }
}
