//! A password that is kept to be used: of an account of this server's with somebody else.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A password: it does not print, and is wiped when it goes.
#[derive(Clone)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes it over.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The password itself, to be hashed and shown nowhere.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        bool::from(self.0.as_bytes().ct_eq(other.0.as_bytes()))
    }
}

impl Eq for Password {}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_compared_and_never_printed() {
        let password = Password::new("mellon-27".to_owned());
        for printed in [format!("{password:?}"), format!("{password:#?}")] {
            assert!(!printed.contains("mellon"), "{printed}");
        }
        assert_eq!(password, Password::new("mellon-27".to_owned()));
        for other in ["mellon-2", "mellon-270", "Mellon-27", ""] {
            assert_ne!(password, Password::new(other.to_owned()));
        }
    }
}
