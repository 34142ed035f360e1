//! What a listener takes by WebSocket.

use serde::Deserialize;
use sip_net::{Origin, Origins};

/// What the request that opens a WebSocket must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenWebSocket {
    /// The path of the address, without a query.
    pub path: UpgradePath,
    /// The pages that may open a connection; without any, those of this
    /// server's own names and of the address that was connected to.
    pub origins: Vec<PageOrigin>,
}

impl Default for ListenWebSocket {
    fn default() -> Self {
        Self {
            path: UpgradePath("/".to_owned()),
            origins: Vec::new(),
        }
    }
}

impl ListenWebSocket {
    /// The pages that are admitted.
    pub(crate) fn origins(&self) -> Origins {
        let mut listed = Vec::new();
        for origin in &self.origins {
            match origin {
                PageOrigin::Any => return Origins::Any,
                PageOrigin::One(origin) => listed.push(origin.clone()),
            }
        }
        if listed.is_empty() {
            Origins::Own
        } else {
            Origins::Listed(listed)
        }
    }
}

/// The path of a WebSocket's address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UpgradePath(pub String);

impl TryFrom<String> for UpgradePath {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let is_path = text.starts_with('/')
            && text.len() <= 256
            && text
                .bytes()
                .all(|byte| (0x21..0x7f).contains(&byte) && !b"?#".contains(&byte));
        if is_path {
            Ok(Self(text))
        } else {
            Err(format!(
                "`{text}` is no path\nwrite what stands behind the host in the page's address for the server, without a query, for example \"/\" or \"/sip\""
            ))
        }
    }
}

/// A page that may connect, or all of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PageOrigin {
    /// `*`.
    Any,
    /// This one.
    One(Origin),
}

impl TryFrom<String> for PageOrigin {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        text.parse().map(Self::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ListenWebSocket, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn origins_and_paths_are_read_or_refused_with_a_remedy() {
        assert_eq!(read("").unwrap().origins(), Origins::Own);
        let listed = read("path = \"/sip\"\norigins = [\"https://phone.example.com\"]").unwrap();
        assert_eq!(listed.path.0, "/sip");
        let origin = "https://phone.example.com:443".parse().unwrap();
        assert_eq!(listed.origins(), Origins::Listed(vec![origin]));
        let any = read("origins = [\"https://phone.example.com\", \"*\"]").unwrap();
        assert_eq!(any.origins(), Origins::Any);
        for (text, remedy) in [
            ("path = \"sip\"", "write what stands behind the host"),
            ("path = \"/sip?x=1\"", "write what stands behind the host"),
            ("path = \"\"", "write what stands behind the host"),
            (
                "origins = [\"phone.example.com\"]",
                "write the scheme, the host and the port",
            ),
            (
                "origins = [\"https://*.example.com\"]",
                "write the scheme, the host and the port",
            ),
            ("origin = []", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}
