//! Names of users, as accounts are kept of them.

use std::borrow::Cow;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// A name without what stores with rules of their own pass over: the case of its letters, and
/// spaces around it. Names that only so become one have one account, wherever they are kept:
/// a store that verifies digests by itself does not say how the name is spelt there.
///
/// It does not take accents away: `jurgen` and `jürgen` are two.
pub(crate) fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    let name = name.trim_ascii();
    if !name
        .iter()
        .any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii())
    {
        return Cow::Borrowed(name);
    }
    Cow::Owned(match str::from_utf8(name) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    })
}

pub(crate) fn write_user(hasher: &mut SipHasher13, name: &[u8], realm: &[u8]) {
    let name = &*folded(name);
    for part in [name, realm] {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_one_and_other_names_are_others() {
        for (name, expected) in [
            ("alice", "alice"),
            ("ALICE", "alice"),
            (" Alice  ", "alice"),
            ("J\u{dc}RGEN", "j\u{fc}rgen"),
            ("j\u{fc}rgen", "j\u{fc}rgen"),
            ("jurgen", "jurgen"),
            ("a b", "a b"),
            ("", ""),
        ] {
            assert_eq!(*folded(name.as_bytes()), *expected.as_bytes(), "{name}");
        }
        assert_eq!(*folded(b"A\xff"), *b"a\xff");
        assert!(matches!(folded(b"alice"), Cow::Borrowed(_)));
    }
}
