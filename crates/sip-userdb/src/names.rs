//! Names that are not sent as they are.

/// Asked for in the place of a name that a store cannot be asked for. What the store says of it is
/// not believed.
pub(crate) use sip_lookup::ABSENT_USER;

use crate::url::{Host, Url};

/// Whether a name is text that every store of text takes as it is. What is no UTF-8, or
/// ends early for whoever counts to a NUL, could be read there as somebody else.
pub(crate) fn as_text(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name)
        .ok()
        .filter(|text| !text.is_empty() && !text.contains('\0'))
}

/// Where a store is, as errors call it.
pub(crate) fn place(url: &Url) -> String {
    match &url.host {
        Host::Name(name) if name.contains(':') => format!("[{name}]:{}", url.port),
        Host::Name(name) => format!("{name}:{}", url.port),
        Host::Socket(path) => path.display().to_string(),
    }
}
