//! Which tunnels there are, what each protects with, and what must be installed for it.

use diagnose::nearest;
use signet_bed::Error;
use signet_bed::process::is_there;

/// What a tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Packets of IP, and so UDP and TCP.
    Packets,
    /// Connections of TCP alone.
    Streams,
}

impl Carries {
    /// As a record calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Streams => "streams",
        }
    }
}

/// Whose tunnel it is, with what only it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The bare pair of interfaces.
    Bare,
    /// ESP of the kernel, by keys that the run sets.
    Xfrm(Esp),
    /// strongSwan with ESP in user space.
    StrongSwan {
        /// The proposal for ESP.
        esp: &'static str,
        /// As its log calls what was agreed on.
        says: &'static str,
    },
    /// stunnel.
    Stunnel(Suite),
    /// OpenVPN.
    OpenVpn {
        /// `--data-ciphers`.
        cipher: &'static str,
        /// `--auth`.
        auth: &'static str,
        /// Whether OpenSSL has the cipher in its legacy provider alone.
        is_legacy: bool,
    },
    /// WireGuard of the kernel, or else boringtun.
    WireGuard,
}

/// How the kernel's ESP protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Esp {
    /// AES-128-GCM with an ICV of 16 bytes (RFC 4106).
    Gcm,
    /// AES-128-CBC and HMAC-SHA1-96.
    CbcSha1,
}

/// A suite of TLS, as stunnel is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    /// TLS 1.3, `TLS_AES_128_GCM_SHA256`.
    Gcm,
    /// TLS 1.2, `ECDHE-ECDSA-AES128-SHA`: the paper's algorithms behind a key exchange of today.
    CbcSha1,
}

/// A tunnel that can be priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its name: the program, and what it protects with where it has several.
    pub name: &'static str,
    /// In a line, for readers.
    pub title: &'static str,
    /// The algorithms that protect what passes.
    pub algorithms: &'static [&'static str],
    /// What it carries.
    pub carries: Carries,
    pub(super) kind: Kind,
}

/// All of them; the first is what the others are held against.
pub static TUNNELS: [Tunnel; 12] = [
    Tunnel {
        name: "none",
        title: "no tunnel",
        algorithms: &[],
        carries: Carries::Packets,
        kind: Kind::Bare,
    },
    Tunnel {
        name: "ipsec/aes-128-gcm",
        title: "the kernel's IPsec, ESP in tunnel mode",
        algorithms: &["aes-128-gcm"],
        carries: Carries::Packets,
        kind: Kind::Xfrm(Esp::Gcm),
    },
    Tunnel {
        name: "ipsec/aes-128-cbc+sha1",
        title: "the kernel's IPsec, ESP in tunnel mode",
        algorithms: &["aes-128-cbc", "hmac-sha1-96"],
        carries: Carries::Packets,
        kind: Kind::Xfrm(Esp::CbcSha1),
    },
    Tunnel {
        name: "strongswan/aes-128-cbc+sha-256",
        title: "strongSwan, ESP in user space (libipsec)",
        algorithms: &["aes-128-cbc", "hmac-sha-256-128"],
        carries: Carries::Packets,
        kind: Kind::StrongSwan {
            esp: "aes128-sha256",
            says: "AES_CBC_128/HMAC_SHA2_256_128/",
        },
    },
    Tunnel {
        name: "strongswan/aes-128-cbc+sha1",
        title: "strongSwan, ESP in user space (libipsec)",
        algorithms: &["aes-128-cbc", "hmac-sha1-96"],
        carries: Carries::Packets,
        kind: Kind::StrongSwan {
            esp: "aes128-sha1",
            says: "AES_CBC_128/HMAC_SHA1_96/",
        },
    },
    Tunnel {
        name: "stunnel/aes-128-gcm",
        title: "stunnel, TLS 1.3",
        algorithms: &["aes-128-gcm"],
        carries: Carries::Streams,
        kind: Kind::Stunnel(Suite::Gcm),
    },
    Tunnel {
        name: "stunnel/aes-128-cbc+sha1",
        title: "stunnel, TLS 1.2",
        algorithms: &["aes-128-cbc", "hmac-sha1-96"],
        carries: Carries::Streams,
        kind: Kind::Stunnel(Suite::CbcSha1),
    },
    Tunnel {
        name: "openvpn/none",
        title: "OpenVPN, what passes unprotected",
        algorithms: &[],
        carries: Carries::Packets,
        kind: Kind::OpenVpn {
            cipher: "none",
            auth: "none",
            is_legacy: false,
        },
    },
    Tunnel {
        name: "openvpn/aes-128-gcm",
        title: "OpenVPN",
        algorithms: &["aes-128-gcm"],
        carries: Carries::Packets,
        kind: Kind::OpenVpn {
            cipher: "AES-128-GCM",
            auth: "SHA256",
            is_legacy: false,
        },
    },
    Tunnel {
        name: "openvpn/aes-128-cbc+sha1",
        title: "OpenVPN",
        algorithms: &["aes-128-cbc", "hmac-sha1"],
        carries: Carries::Packets,
        kind: Kind::OpenVpn {
            cipher: "AES-128-CBC",
            auth: "SHA1",
            is_legacy: false,
        },
    },
    Tunnel {
        name: "openvpn/blowfish-128-cbc+sha1",
        title: "OpenVPN",
        algorithms: &["blowfish-128-cbc", "hmac-sha1"],
        carries: Carries::Packets,
        kind: Kind::OpenVpn {
            cipher: "BF-CBC",
            auth: "SHA1",
            is_legacy: true,
        },
    },
    Tunnel {
        name: "wireguard",
        title: "WireGuard",
        algorithms: &["chacha20-poly1305"],
        carries: Carries::Packets,
        kind: Kind::WireGuard,
    },
];

/// What strongSwan's daemon is started by, and what has ESP in user space.
pub(super) const STARTER: &str = "/usr/lib/ipsec/starter";
const CHARON: &str = "/usr/lib/ipsec/charon";
const LIBIPSEC: &str = "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so";

impl Tunnel {
    /// Programs and files, and what has them in Debian.
    fn needs(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind {
            Kind::Bare | Kind::Xfrm(_) => &[],
            Kind::StrongSwan { .. } => &[
                (STARTER, "apt-get install strongswan-starter"),
                (CHARON, "apt-get install strongswan-charon"),
                (LIBIPSEC, "apt-get install libcharon-extra-plugins"),
            ],
            Kind::Stunnel(_) => &[("stunnel", "apt-get install stunnel4")],
            Kind::OpenVpn { .. } => &[("openvpn", "apt-get install openvpn")],
            Kind::WireGuard => &[("wg", "apt-get install wireguard-tools")],
        }
    }

    /// Why it cannot be measured here, as far as that is seen before it is tried.
    pub(super) fn missing(&self) -> Option<Error> {
        let needs = self.needs().iter();
        let (what, remedy) = needs.copied().find(|(what, _)| !is_there(what))?;
        Some(Error::new(
            format!("{what} is not installed"),
            format!("type: {remedy}"),
        ))
    }

    /// The program whose version a record keeps, and how it is asked.
    pub(super) fn program(&self) -> Option<(&'static str, &'static [&'static str])> {
        match self.kind {
            Kind::Bare | Kind::Xfrm(_) => None,
            Kind::StrongSwan { .. } => Some(("ipsec", &["--version"])),
            Kind::Stunnel(_) => Some(("stunnel", &["-version"])),
            Kind::OpenVpn { .. } => Some(("openvpn", &["--version"])),
            Kind::WireGuard => Some(("wg", &["--version"])),
        }
    }
}

/// The tunnels of these names; a program's name stands for all that it has. `none` is always
/// among them, since the others are held against it. No names are all.
///
/// # Errors
/// A name that none has, with the nearest.
pub fn among(names: &[String]) -> Result<Vec<&'static Tunnel>, Error> {
    let is_of = |tunnel: &Tunnel, name: &str| {
        tunnel.name == name || tunnel.name.split('/').next() == Some(name)
    };
    for name in names {
        if !TUNNELS.iter().any(|tunnel| is_of(tunnel, name)) {
            return Err(unknown(name));
        }
    }
    let is_wanted = |tunnel: &&Tunnel| {
        names.is_empty()
            || tunnel.kind == Kind::Bare
            || names.iter().any(|name| is_of(tunnel, name))
    };
    Ok(TUNNELS.iter().filter(is_wanted).collect())
}

/// The same, where those that are named must be installed.
///
/// # Errors
/// As [`among`], and what is missing, with the package that has it.
pub fn choose(names: &[String]) -> Result<Vec<&'static Tunnel>, Error> {
    let chosen = among(names)?;
    let is_named = !names.is_empty();
    match chosen.iter().find_map(|tunnel| tunnel.missing()) {
        Some(error) if is_named => Err(error),
        _ => Ok(chosen),
    }
}

fn unknown(name: &str) -> Error {
    let mut known: Vec<&str> = TUNNELS.iter().map(|tunnel| tunnel.name).collect();
    let programs = TUNNELS.iter().filter_map(|it| it.name.split('/').next());
    known.extend(programs);
    let remedy = match nearest(name, &known) {
        Some(word) => format!("did you mean {word}?"),
        None => {
            let names: Vec<&str> = TUNNELS.iter().map(|tunnel| tunnel.name).collect();
            format!("write one of: {}", names.join(", "))
        }
    };
    Error::new(format!("no tunnel is called `{name}`"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Result<Vec<&'static str>, String> {
        let of: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
        let chosen = among(&of).map_err(|error| error.to_string())?;
        Ok(chosen.iter().map(|tunnel| tunnel.name).collect())
    }

    #[test]
    fn a_program_stands_for_all_that_it_has() {
        let all = names(&[]).unwrap();
        assert_eq!(all.len(), TUNNELS.len());
        assert_eq!(names(&["none"]).unwrap(), ["none"]);
        let kernel = names(&["ipsec"]).unwrap();
        assert_eq!(
            kernel,
            ["none", "ipsec/aes-128-gcm", "ipsec/aes-128-cbc+sha1"]
        );
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest() {
        let error = names(&["opnvpn"]).unwrap_err();
        assert!(error.contains("did you mean openvpn?"), "{error}");
        let error = names(&["carrier-pigeon"]).unwrap_err();
        assert!(error.contains("strongswan/aes-128-cbc+sha1"), "{error}");
    }

    #[test]
    fn each_has_a_name_of_its_own() {
        let mut names: Vec<&str> = TUNNELS.iter().map(|tunnel| tunnel.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TUNNELS.len());
    }
}
