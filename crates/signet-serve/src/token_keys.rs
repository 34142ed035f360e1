//! The keys under which dialogs' tokens are signed: a ring in the data folder,
//! so that calls go on after a restart, renewed by its age.
//!
//! The file `tokens.keys` has a line for each key, the newest first: its name
//! (0 to 255), when it was made in seconds since 1970, and 64 hexadecimal
//! digits. It is written whole before a key signs, so no token is ever signed
//! by a key that a restart would not find.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sip_engine::token::{TOKEN_KEYS_MAX, TokenKey, TokenKeys};
use zeroize::{Zeroize, Zeroizing};

use crate::Error;
use crate::data_dir::{DataDir, from_hex, refuse_readable_by_others, to_hex};

/// The file in the data folder.
const FILE: &str = "tokens.keys";
/// How old a key gets before another follows it.
const AGE_MAX_S: u64 = 86_400;
/// How long a key verifies beyond the life of its last token: clocks differ,
/// and a token's time is coarse.
const MARGIN_S: u64 = 2 * 3_600;
/// How often the age of the newest is looked at.
pub(crate) const LOOKED_AT: Duration = Duration::from_secs(600);

/// The ring, and the folder that it is kept in.
pub(crate) struct KeptKeys {
    data: DataDir,
    keys: Vec<TokenKey>,
    shared: Arc<TokenKeys>,
}

impl KeptKeys {
    /// Reads the ring, and makes a key where there is none or it is old. Where a ring is there and
    /// another cannot be written, as on a full disk, it goes on: a restart finds it.
    pub(crate) fn open(data: &DataDir, lifetime_s: u64, now_s: u64) -> Result<Self, Error> {
        let mut epoch = [0; 4];
        crate::random_bytes(&mut epoch)?;
        let mut keys = read(data)?;
        let mut renewed = keys.clone();
        let found: Vec<u8> = keys.iter().map(|key| key.id).collect();
        // A dialog that is alive shows it within this time. None is known yet, and the file holds
        // what was needed when it was written.
        let needed_until_s = now_s.saturating_add(lifetime_s);
        if renew(&mut renewed, lifetime_s, now_s, |_| needed_until_s)? {
            match write(data, &renewed) {
                Ok(()) => keys = renewed,
                Err(error) if keys.is_empty() => return Err(error),
                Err(error) => tracing::warn!(
                    "the keys that sign the routes of calls were not renewed; the old ones stay: {error}"
                ),
            }
        }
        let (newest, older) = split(&keys)?;
        let shared = TokenKeys::new(newest, older, u32::from_be_bytes(epoch));
        for id in found {
            shared.need(id, needed_until_s);
        }
        Ok(Self {
            data: data.clone(),
            shared: Arc::new(shared),
            keys,
        })
    }

    /// The ring as the shards know it.
    pub(crate) fn shared(&self) -> Arc<TokenKeys> {
        Arc::clone(&self.shared)
    }

    /// Makes a new key if the newest is old. Where that fails, the ring stays
    /// as it is, and goes on signing.
    pub(crate) fn renew(&mut self, lifetime_s: u64, now_s: u64) -> Result<(), Error> {
        let mut keys = self.keys.clone();
        if renew(&mut keys, lifetime_s, now_s, |id| {
            self.shared.needed_until_s(id)
        })? {
            write(&self.data, &keys)?;
            let (newest, older) = split(&keys)?;
            tracing::info!(id = newest.id, "a new key signs the routes of calls");
            self.shared.replace(newest, older);
            self.keys = keys;
        }
        Ok(())
    }
}

impl Drop for KeptKeys {
    fn drop(&mut self) {
        for key in &mut self.keys {
            key.secret.zeroize();
        }
    }
}

/// Drops what no token needs any more, and puts a key in front where the first
/// is old; whether anything has changed. A dialog that lives on by what is answered within it needs
/// its key longer than its token says: `needed_until_s` tells until when by the key's name.
fn renew(
    keys: &mut Vec<TokenKey>,
    lifetime_s: u64,
    now_s: u64,
    needed_until_s: impl Fn(u8) -> u64,
) -> Result<bool, Error> {
    let before = keys.len();
    // A key signed its last token when the next one was made.
    let mut followed_s = now_s;
    keys.retain(|key| {
        let last_s = followed_s
            .saturating_add(lifetime_s)
            .max(needed_until_s(key.id));
        let is_needed = now_s <= last_s.saturating_add(MARGIN_S);
        followed_s = key.created_unix_s;
        is_needed
    });
    let newest = keys.first();
    // A clock that was set back makes no key old, and one from the future does.
    let is_old = newest.is_none_or(|key| {
        now_s.saturating_sub(key.created_unix_s) >= AGE_MAX_S
            || key.created_unix_s > now_s.saturating_add(AGE_MAX_S)
    });
    if is_old {
        let id = newest.map_or(0, |key| key.id.wrapping_add(1));
        let mut secret = Zeroizing::new([0; 32]);
        crate::random_bytes(&mut *secret)?;
        let key = TokenKey {
            id,
            secret: *secret,
            created_unix_s: now_s,
        };
        keys.insert(0, key);
        keys.truncate(TOKEN_KEYS_MAX);
    }
    Ok(is_old || keys.len() != before)
}

fn read(data: &DataDir) -> Result<Vec<TokenKey>, Error> {
    let path = data.file(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    refuse_readable_by_others("the key", &path)?;
    let text = std::fs::read_to_string(&path)
        .map(Zeroizing::new)
        .map_err(|error| Error::file("read", &path, &error))?;
    let keys: Option<Vec<_>> = text.lines().map(parse).collect();
    keys.filter(|keys| keys.len() <= TOKEN_KEYS_MAX)
        .ok_or_else(|| spoilt(&path))
}

fn spoilt(path: &Path) -> Error {
    Error::new(
        format!(
            "{} does not hold the keys that sign the routes of calls",
            path.display()
        ),
        "put the file back, or remove it: calls that are up are then challenged when they hang up, and nothing else is lost",
    )
}

fn parse(line: &str) -> Option<TokenKey> {
    let mut words = line.split(' ');
    let (id, created) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut secret = Zeroizing::new([0; 32]);
    let is_whole = from_hex(words.next()?, &mut *secret) && words.next().is_none();
    is_whole.then_some(TokenKey {
        id,
        secret: *secret,
        created_unix_s: created,
    })
}

fn write(data: &DataDir, keys: &[TokenKey]) -> Result<(), Error> {
    let mut text = Zeroizing::new(String::new());
    for key in keys {
        let secret = Zeroizing::new(to_hex(&key.secret));
        text.push_str(&format!(
            "{} {} {}\n",
            key.id,
            key.created_unix_s,
            secret.as_str()
        ));
    }
    data.write(FILE, text.as_bytes(), 0o600)
}

fn split(keys: &[TokenKey]) -> Result<(TokenKey, Vec<TokenKey>), Error> {
    match keys.split_first() {
        Some((newest, older)) => Ok((newest.clone(), older.to_vec())),
        None => Err(Error::new(
            "there is no key to sign the routes of calls with",
            format!("remove {FILE} in the data folder: the next start makes a new one"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::testing::TempDir;

    const LIFETIME_S: u64 = 86_400;
    const NOW_S: u64 = 1_800_000_000;

    fn secrets(keys: &KeptKeys) -> Vec<(u8, [u8; 32])> {
        keys.keys.iter().map(|key| (key.id, key.secret)).collect()
    }

    #[test]
    fn the_ring_outlives_the_process_and_is_for_its_owner_alone() {
        let temp = TempDir::new("token-keys");
        let data = DataDir::open(temp.path()).unwrap();
        let first = secrets(&KeptKeys::open(&data, LIFETIME_S, NOW_S).unwrap());
        assert_eq!(first.len(), 1);
        let mode = data.file(FILE).metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = secrets(&KeptKeys::open(&data, LIFETIME_S, NOW_S + 60).unwrap());
        assert_eq!(again, first);
    }

    #[test]
    fn a_key_is_followed_after_a_day_and_goes_when_no_token_needs_it() {
        let temp = TempDir::new("token-keys-renewed");
        let data = DataDir::open(temp.path()).unwrap();
        let mut keys = KeptKeys::open(&data, LIFETIME_S, NOW_S).unwrap();
        let first = secrets(&keys);
        keys.renew(LIFETIME_S, NOW_S + AGE_MAX_S - 1).unwrap();
        assert_eq!(secrets(&keys), first);
        keys.renew(LIFETIME_S, NOW_S + AGE_MAX_S).unwrap();
        let second = secrets(&keys);
        assert_eq!((second.len(), second[1], second[0].0), (2, first[0], 1));
        // What is in the file is what is in use.
        let read = KeptKeys::open(&data, LIFETIME_S, NOW_S + AGE_MAX_S).unwrap();
        assert_eq!(secrets(&read), second);
        // Its last token was made when it was followed.
        let end_s = NOW_S + AGE_MAX_S + LIFETIME_S + MARGIN_S;
        keys.renew(LIFETIME_S, end_s).unwrap();
        assert!(secrets(&keys).contains(&first[0]));
        keys.renew(LIFETIME_S, end_s + 1).unwrap();
        assert!(!secrets(&keys).contains(&first[0]));
        for day in 3..400 {
            keys.renew(LIFETIME_S, NOW_S + day * AGE_MAX_S).unwrap();
        }
        assert!(keys.keys.len() <= 4, "{}", keys.keys.len());
    }

    #[test]
    fn a_ring_that_cannot_be_renewed_goes_on_and_no_key_signs_that_is_not_in_the_file() {
        let temp = TempDir::new("token-keys-stuck");
        let data = DataDir::open(temp.path()).unwrap();
        let later_s = NOW_S + 2 * AGE_MAX_S;
        // A folder by the name of what is written keeps the file from being replaced.
        let keep = |is_kept: bool| {
            let new = data.file(&format!("{FILE}.{}.new", std::process::id()));
            match is_kept {
                true => std::fs::create_dir(new).unwrap(),
                false => std::fs::remove_dir(new).unwrap(),
            }
        };
        keep(true);
        assert!(KeptKeys::open(&data, LIFETIME_S, NOW_S).is_err());
        keep(false);
        let first = secrets(&KeptKeys::open(&data, LIFETIME_S, NOW_S).unwrap());
        keep(true);
        let mut keys = KeptKeys::open(&data, LIFETIME_S, later_s).unwrap();
        assert_eq!(secrets(&keys), first);
        assert!(keys.renew(LIFETIME_S, later_s).is_err());
        assert_eq!(secrets(&keys), first);
        keep(false);
        keys.renew(LIFETIME_S, later_s).unwrap();
        let renewed = secrets(&keys);
        assert_eq!((renewed.len(), renewed[1]), (2, first[0]));
        let read = KeptKeys::open(&data, LIFETIME_S, later_s).unwrap();
        assert_eq!(secrets(&read), renewed);
    }

    #[test]
    fn a_key_stays_as_long_as_a_dialog_needs_it() {
        let mut keys = Vec::new();
        let needed_until_s = NOW_S + 10 * AGE_MAX_S;
        let needed = |id| if id == 0 { needed_until_s } else { 0 };
        for day in 0..=10 {
            renew(&mut keys, LIFETIME_S, NOW_S + day * AGE_MAX_S, needed).unwrap();
            assert!(keys.iter().any(|key| key.id == 0), "{day}");
            assert!(keys.len() <= 4, "no other stays");
        }
        renew(&mut keys, LIFETIME_S, needed_until_s + MARGIN_S, needed).unwrap();
        assert!(keys.iter().any(|key| key.id == 0));
        renew(&mut keys, LIFETIME_S, needed_until_s + MARGIN_S + 1, needed).unwrap();
        assert!(keys.iter().all(|key| key.id != 0));
    }

    #[test]
    fn a_restart_keeps_what_dialogs_needed_for_as_long_as_they_take_to_show_themselves() {
        let temp = TempDir::new("token-keys-restart");
        let data = DataDir::open(temp.path()).unwrap();
        let mut keys = KeptKeys::open(&data, LIFETIME_S, NOW_S).unwrap();
        let first = secrets(&keys)[0];
        let day = |n: u64| NOW_S + n * AGE_MAX_S;
        for n in 1..=5 {
            // A call that was begun on the first day is refreshed.
            keys.shared().need(first.0, day(n) + LIFETIME_S);
            keys.renew(LIFETIME_S, day(n)).unwrap();
        }
        drop(keys);
        let start_s = day(5) + 7 * 3_600;
        let mut keys = KeptKeys::open(&data, LIFETIME_S, start_s).unwrap();
        assert!(secrets(&keys).contains(&first));
        // Nobody needs it any more: it goes when a lifetime has passed, and is not in the file.
        let end_s = start_s + LIFETIME_S + MARGIN_S;
        keys.renew(LIFETIME_S, end_s).unwrap();
        assert!(secrets(&keys).contains(&first));
        keys.renew(LIFETIME_S, end_s + 1).unwrap();
        assert!(!secrets(&keys).contains(&first));
        drop(keys);
        let keys = KeptKeys::open(&data, LIFETIME_S, end_s + 2).unwrap();
        assert!(!secrets(&keys).contains(&first));
    }

    #[test]
    fn keys_that_each_restart_keeps_have_a_bound() {
        let temp = TempDir::new("token-keys-daily");
        let data = DataDir::open(temp.path()).unwrap();
        for day in 0..100 {
            let keys = KeptKeys::open(&data, LIFETIME_S, NOW_S + day * AGE_MAX_S).unwrap();
            assert!(keys.keys.len() <= TOKEN_KEYS_MAX, "{day}");
        }
    }

    #[test]
    fn long_lives_keep_as_many_keys_as_there_is_room_for() {
        let mut keys = Vec::new();
        for day in 0..200 {
            renew(&mut keys, 400 * AGE_MAX_S, NOW_S + day * AGE_MAX_S, |_| 0).unwrap();
        }
        assert_eq!(keys.len(), TOKEN_KEYS_MAX);
        let mut ids: Vec<_> = keys.iter().map(|key| key.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TOKEN_KEYS_MAX);
    }

    #[test]
    fn a_spoilt_or_open_ring_is_refused_with_the_remedy() {
        let temp = TempDir::new("token-keys-spoilt");
        let data = DataDir::open(temp.path()).unwrap();
        let key = "0".repeat(64);
        for text in [
            "0".to_owned(),
            format!("256 1 {key}"),
            format!("0 1 {key} x"),
            format!("0 x {key}"),
            format!("0 1 {key}0"),
            "x".repeat(70),
        ] {
            data.write(FILE, text.as_bytes(), 0o600).unwrap();
            let error = KeptKeys::open(&data, LIFETIME_S, NOW_S).err().unwrap();
            assert!(error.remedy().starts_with("put the file back"), "{error}");
        }
        data.write(FILE, format!("0 1 {key}\n").as_bytes(), 0o600)
            .unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(data.file(FILE), open).unwrap();
        let error = KeptKeys::open(&data, LIFETIME_S, NOW_S).err().unwrap();
        assert!(error.remedy().starts_with("type: chmod 600 "), "{error}");
    }
}
