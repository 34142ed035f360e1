//! What is to be measured: sizes, algorithms, providers; and what cannot be.

use ipsec::primitive::Provider;
use ipsec::{Auth, Cipher, Esp};
use signet_bed::Error;

use super::subject::Subject;

/// The sizes of Niedermayer 2006, in bytes.
pub const SIZES_BYTES: [u64; 4] = [64, 300, 700, 1_400];
/// The most that leaves room for every header, padding and ICV in an IP packet.
pub const SIZE_BYTES_MAX: u64 = 65_380;
/// More sizes than this make no better line.
const SIZES_MAX: usize = 32;

/// What is to be measured; made by [`Choice::new`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    sizes_bytes: Vec<u64>,
    only: Vec<Wanted>,
    providers: Vec<Provider>,
}

/// Algorithms that a transform must have; `is_alone` where it may have no other authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    cipher: Option<Cipher>,
    auth: Option<Auth>,
    is_alone: bool,
}

impl Choice {
    /// Sizes in bytes of payload, algorithms as `aes-128-cbc`, `aes-128-cbc+hmac-sha1-96` or
    /// `aes-128-cbc+none`, and providers by name. What is empty is everything.
    ///
    /// # Errors
    /// What is unknown or cannot be, with the remedy.
    pub fn new(sizes: &[u64], only: &[String], providers: &[String]) -> Result<Self, Error> {
        Ok(Self {
            sizes_bytes: sizes_of(sizes)?,
            only: only
                .iter()
                .map(|word| wanted(word))
                .collect::<Result<_, _>>()?,
            providers: providers_of(providers)?,
        })
    }

    pub(super) fn sizes_bytes(&self) -> &[u64] {
        &self.sizes_bytes
    }

    pub(super) fn providers(&self) -> &[Provider] {
        &self.providers
    }

    pub(super) fn takes(&self, subject: &Subject) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted.is_in(subject))
    }
}

impl Wanted {
    fn is_in(&self, subject: &Subject) -> bool {
        // The bare primitives of what is wanted stand beside it.
        if let Some(primitive) = subject.primitive() {
            return self.cipher.is_some_and(|cipher| cipher.name() == primitive)
                || self.auth.is_some_and(|auth| auth.name() == primitive);
        }
        let has_cipher = self
            .cipher
            .is_none_or(|cipher| subject.cipher() == Some(cipher));
        let has_auth = match self.auth {
            Some(auth) => subject.auths().contains(&auth),
            None => !self.is_alone || subject.auths().is_empty(),
        };
        has_cipher && has_auth
    }
}

fn sizes_of(sizes: &[u64]) -> Result<Vec<u64>, Error> {
    let mut sizes = if sizes.is_empty() {
        SIZES_BYTES.to_vec()
    } else {
        sizes.to_vec()
    };
    sizes.sort_unstable();
    sizes.dedup();
    let remedy = format!("give sizes from 1 to {SIZE_BYTES_MAX} bytes");
    if sizes.contains(&0) {
        return Err(Error::new("a packet of 0 bytes carries nothing", remedy));
    }
    if let Some(size) = sizes.iter().find(|size| **size > SIZE_BYTES_MAX) {
        let why = if *size > ipsec::BYTES_MAX as u64 {
            format!(
                "{size} bytes are more than an IP packet holds, which is 65535 with its headers"
            )
        } else {
            format!("{size} bytes leave no room in an IP packet for headers, padding and ICV")
        };
        return Err(Error::new(why, remedy));
    }
    if sizes.len() > SIZES_MAX {
        let why = format!("{} sizes are too many", sizes.len());
        return Err(Error::new(why, format!("give at most {SIZES_MAX}")));
    }
    Ok(sizes)
}

fn wanted(word: &str) -> Result<Wanted, Error> {
    let mut wanted = Wanted {
        cipher: None,
        auth: None,
        is_alone: false,
    };
    for name in word.split('+').map(str::trim) {
        let is_taken = if let Some(cipher) = Cipher::of_name(name) {
            wanted.cipher.replace(cipher).is_some()
        } else if let Some(auth) = Auth::of_name(name) {
            wanted.auth.replace(auth).is_some()
        } else if name == "none" {
            std::mem::replace(&mut wanted.is_alone, true)
        } else {
            return Err(unknown(name));
        };
        if is_taken {
            return Err(Error::new(
                format!("{word}: a packet has one encryption and one authentication"),
                "name one of each, and put others behind a comma",
            ));
        }
    }
    if wanted.is_alone && (wanted.auth.is_some() || wanted.cipher.is_none()) {
        return Err(Error::new(
            format!("{word}: `none` stands in the place of an authentication"),
            "write it behind a cipher alone: aes-128-cbc+none",
        ));
    }
    if let Some(cipher) = wanted.cipher
        && (wanted.auth.is_some() || wanted.is_alone)
        && let Err(impossible) = Esp::new(cipher, wanted.auth)
    {
        return Err(Error::new(
            format!("{word} cannot be"),
            impossible.to_string(),
        ));
    }
    Ok(wanted)
}

fn unknown(name: &str) -> Error {
    let ciphers = Cipher::ALL.into_iter().map(Cipher::name);
    let known: Vec<&str> = ciphers
        .chain(Auth::ALL.into_iter().map(Auth::name))
        .collect();
    let remedy = match diagnose::nearest(name, &known) {
        Some(word) => format!("did you mean {word}?"),
        None => format!("write one of: {}", known.join(", ")),
    };
    Error::new(format!("there is no algorithm {name:?}"), remedy)
}

fn providers_of(names: &[String]) -> Result<Vec<Provider>, Error> {
    if names.is_empty() {
        return Ok(Provider::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = Provider::ALL.iter().copied().find(|it| it.name() == name);
        found.ok_or_else(|| {
            let what = format!("this build has no provider {name:?}");
            if name == "openssl" {
                return Error::new(what, "build it with --features legacy-tls");
            }
            Error::new(what, format!("write one of: {}", super::provider_names()))
        })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(sizes: &[u64], only: &[&str], providers: &[&str]) -> String {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let choice = Choice::new(sizes, &words(only), &words(providers));
        choice.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_is_said_with_its_remedy() {
        for (told, wanted) in [
            (
                refused(&[0, 64], &[], &[]),
                "a packet of 0 bytes carries nothing: give sizes from 1 to 65380 bytes",
            ),
            (
                refused(&[65_536], &[], &[]),
                "65536 bytes are more than an IP packet holds, which is 65535 with its headers: \
                 give sizes from 1 to 65380 bytes",
            ),
            (
                refused(&[65_500], &[], &[]),
                "65500 bytes leave no room in an IP packet for headers, padding and ICV: give \
                 sizes from 1 to 65380 bytes",
            ),
            (
                refused(&[], &["aes128-cbc"], &[]),
                "there is no algorithm \"aes128-cbc\": did you mean aes-128-cbc?",
            ),
            (
                refused(&[], &["aes-128-gcm+hmac-sha1-96"], &[]),
                "aes-128-gcm+hmac-sha1-96 cannot be: aes-128-gcm authenticates by itself: leave \
                 hmac-sha1-96 out",
            ),
            (
                refused(&[], &["null+none"], &[]),
                "null+none cannot be: null encryption without authentication protects nothing: \
                 add hmac-sha-256-128",
            ),
            (
                refused(&[], &["des-cbc+3des-cbc"], &[]),
                "des-cbc+3des-cbc: a packet has one encryption and one authentication: name one \
                 of each, and put others behind a comma",
            ),
        ] {
            assert_eq!(told, wanted);
        }
        assert!(refused(&[], &["rot13"], &[]).contains("write one of: null, aes-128-cbc"));
        assert!(refused(&[], &[], &["boring"]).contains("write one of: rustcrypto, aws-lc"));
        assert!(refused(&[], &["none"], &[]).contains("behind a cipher"));
    }

    #[test]
    fn a_choice_takes_what_has_its_algorithms() {
        let names = |only: &str| -> Vec<String> {
            let choice = Choice::new(&[], &[only.to_owned()], &[]).unwrap();
            Subject::all()
                .filter(|it| choice.takes(it))
                .map(|it| it.name())
                .collect()
        };
        let gcm = names("aes-128-gcm");
        assert!(gcm.contains(&"primitive/aes-128-gcm".to_owned()));
        assert!(gcm.contains(&"esp/tunnel/ipv6/aes-128-gcm".to_owned()));
        assert_eq!(gcm.len(), 5);
        // ESP alone, in two modes over two versions, and the primitive.
        assert_eq!(names("3des-cbc+none").len(), 5);
        // With the hash in ESP and in AH.
        let both = names("3des-cbc+hmac-md5-96");
        assert!(both.contains(&"esp+ah/transport/ipv4/3des-cbc/hmac-md5-96".to_owned()));
        assert_eq!(both.len(), 4 + 4 + 2);
    }

    #[test]
    fn sizes_are_sorted_and_come_once() {
        let choice = Choice::new(&[300, 64, 300], &[], &[]).unwrap();
        assert_eq!(choice.sizes_bytes(), [64, 300]);
    }
}
