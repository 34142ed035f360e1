//! The users of a server: who they are, and the hashes of their passwords.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use sip_net::clock;
use sip_store::{Database, StoreErrorKind, read_users};
use zeroize::Zeroizing;

use super::elsewhere::Elsewhere;
use super::password::PasswordFrom;
use super::{Instance, Opened, bindings, many, must_be_writable, people, say};
use crate::Error;
use crate::config::Domain;
use crate::data_dir::{DataDir, write_whole};
use crate::userdb;

/// The users of one server.
pub struct Users {
    data: DataDir,
    kept: Kept,
    /// The domain of names that are given without one.
    domain: Domain,
    /// Whether that was asked for: then only its users are meant.
    only: Option<Domain>,
    /// The realm of all users, where it is not their domain.
    realm: Option<Domain>,
}

/// Where they are kept.
enum Kept {
    /// In the data folder's own database.
    Here(RefCell<Database>),
    /// On another machine.
    Elsewhere(Box<Elsewhere>),
}

/// A list of users in CSV. It is read by whoever gives the command, before that goes on as the
/// owner of the data folder: passwords are in it, so it may be for root alone.
pub struct UserList {
    file: PathBuf,
    text: Zeroizing<String>,
}

impl UserList {
    /// Reads it; `-` is the standard input.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let mut text = Zeroizing::new(String::new());
        let read = if file == Path::new("-") {
            std::io::stdin().lock().read_to_string(&mut text)
        } else {
            std::fs::File::open(file).and_then(|mut opened| opened.read_to_string(&mut text))
        };
        match read {
            Ok(_) => Ok(Self {
                file: file.to_owned(),
                text,
            }),
            Err(error) => Err(Error::new(
                format!("cannot read {}: {error}", file.display()),
                "name a text that this user may read, or - for the standard input: signet user import - < FILE",
            )),
        }
    }
}

/// A user by name, and the realm under which he is kept.
pub(super) struct Named {
    pub(super) user: String,
    pub(super) realm: Domain,
}

impl Users {
    /// Opens them; `domain` is that of names which are given without one.
    pub fn open(instance: &Instance, domain: Option<Domain>) -> Result<Self, Error> {
        let Opened {
            data,
            domain: default,
            realm,
            users,
        } = instance.open()?;
        let kept = match userdb::options(&users, None)?.into_iter().next() {
            None => Kept::Here(RefCell::new(data.open_database()?)),
            Some(options) => {
                Kept::Elsewhere(Box::new(Elsewhere::open(options, data.path().to_owned())?))
            }
        };
        Ok(Self {
            data,
            kept,
            domain: domain.clone().unwrap_or(default),
            only: domain,
            realm,
        })
    }

    /// Adds a user.
    pub fn add(&self, name: &str, from: PasswordFrom) -> Result<(), Error> {
        let Named { user, realm } = self.parse(name)?;
        let domain = match name.rsplit_once('@') {
            Some((_, domain)) => domain.trim_end_matches('.').to_ascii_lowercase(),
            None => self.domain.to_string(),
        };
        if self.data.open_database()?.has_alias(&user, &domain)? {
            return Err(Error::new(
                format!(
                    "there is an alias {user}@{domain}, which comes before a user of that name"
                ),
                format!("to have the user: signet alias remove {user}@{domain}"),
            ));
        }
        // Before a password is asked for in vain.
        if self.has(&user, &realm)? {
            return Err(Error::new(
                format!("there is a user {user}@{realm} already"),
                format!("to change the password: signet user passwd {user}@{realm}"),
            ));
        }
        let password = from.get(&format!("{user}@{realm}"))?;
        match &self.kept {
            Kept::Here(database) => {
                database
                    .borrow_mut()
                    .add_user(&realm.0, &user, &password.text, clock::unix_ms())?
            }
            Kept::Elsewhere(store) => store.put(&realm.0, &user, &password.text)?,
        }
        password.tell(&user, &realm, "was added")
    }

    /// Changes a user's password.
    pub fn passwd(&self, name: &str, from: PasswordFrom) -> Result<(), Error> {
        let Named { user, realm } = self.parse_of_any(name)?;
        if !self.has(&user, &realm)? {
            return Err(unknown(&user, &realm));
        }
        let password = from.get(&format!("{user}@{realm}"))?;
        match &self.kept {
            Kept::Here(database) => database.borrow_mut().set_password(
                &realm.0,
                &user,
                &password.text,
                clock::unix_ms(),
            )?,
            Kept::Elsewhere(store) => store.put(&realm.0, &user, &password.text)?,
        }
        password.tell(&user, &realm, "was changed")
    }

    /// Lists the users.
    pub fn list(&self) -> Result<(), Error> {
        let mut text = String::new();
        let asked = self.asked_realm();
        match &self.kept {
            Kept::Here(database) => database.borrow_mut().users(asked, &mut |subscriber| {
                let _ = writeln!(text, "{}@{}", subscriber.user, subscriber.realm);
            })?,
            Kept::Elsewhere(store) => store.list(&mut |user, realm| {
                if asked.is_none_or(|asked| asked == realm) {
                    let _ = writeln!(text, "{user}@{realm}");
                }
            })?,
        }
        say(&text)
    }

    /// Removes a user, and with him his contacts: whoever gets the name after him does not
    /// get his phone.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let Named { user, realm } = self.parse_of_any(name)?;
        let (is_removed, told) = match &self.kept {
            Kept::Here(database) => match database.borrow_mut().remove_user(&realm.0, &user) {
                Ok(()) => (true, Ok(())),
                Err(error) if error.kind() == StoreErrorKind::NotFound => (false, Ok(())),
                Err(error) => return Err(error.into()),
            },
            Kept::Elsewhere(store) => store.remove(&realm.0, &user)?,
        };
        // Whatever of the rest fails, its other half is done; the command, typed again, completes it.
        let is_one_realm = self.realm.is_some();
        let contacts = bindings::end_of_user(&self.data, &user, &realm.0, is_one_realm);
        let forgotten = self.forget(&user, &realm, is_removed);
        match (contacts, forgotten, told) {
            (Ok(0), Ok(false), Ok(())) if !is_removed => Err(unknown(&user, &realm)),
            (Ok(contacts), Ok(_), Ok(())) => {
                let of_whom = match is_removed {
                    true => "",
                    false => "what was left of ",
                };
                let and_contacts = match contacts {
                    0 => String::new(),
                    count => format!(" and {}", many(count, "contact")),
                };
                say(&format!("removed {of_whom}{user}@{realm}{and_contacts}\n"))
            }
            (contacts, forgotten, told) => {
                let done = match is_removed {
                    true => format!("{user}@{realm} is removed"),
                    false => format!("there is no user {user}@{realm}"),
                };
                let left = [
                    ("his contacts", contacts.err()),
                    ("what is written of him", forgotten.err()),
                    ("what the running server remembers of him", told.err()),
                ];
                Err(may_be_left(&done, &format!("{user}@{realm}"), left))
            }
        }
    }

    /// Forgets what is written of a user who is removed; whether there was anything.
    fn forget(&self, user: &str, realm: &Domain, was_there: bool) -> Result<bool, Error> {
        // It is found whatever the case of the name, so it may be somebody else's.
        if !was_there
            && let Some(row) = self.data.open_database()?.person(&realm.0, user)?
            && self.knows(&row.user, realm)? != Some(false)
        {
            return Ok(false);
        }
        people::forget(&self.data, user, &realm.0, was_there)
    }

    /// Adds or changes users from a list in CSV. One bad line, and none is taken.
    pub fn import(&self, list: &UserList) -> Result<(), Error> {
        let UserList { file, text } = list;
        let realm = self.realm.as_ref().unwrap_or(&self.domain);
        let users = read_users(text, Some(&realm.0)).map_err(|error| {
            Error::new(
                format!("{}: {error}", file.display()),
                "mend the list and type the command again; nothing was imported",
            )
        })?;
        let database = match &self.kept {
            Kept::Here(database) => database,
            Kept::Elsewhere(store) => {
                store.import(&users)?;
                return say(&format!("{} added or changed\n", many(users.len(), "user")));
            }
        };
        let put = database.borrow_mut().put_users(&users, clock::unix_ms());
        let imported = put.map_err(|error| {
            Error::new(
                error.to_string(),
                "then type the command again: it takes all of the list",
            )
        })?;
        say(&format!(
            "{} added, {} changed\n",
            many(imported.added, "user"),
            imported.changed
        ))?;
        if imported.md5_only == 0 {
            return Ok(());
        }
        let (have, they, to_them) = match imported.md5_only {
            1 => ("has", "he", "to him"),
            _ => ("have", "they", "to them"),
        };
        say(&format!(
            "{} of them {have} an HA1 for MD5 alone: {they} cannot register with a phone that answers the SHA-256 challenge. Set authentication.algorithms = [\"MD5\"], or offer MD5 alone {to_them} in [[authentication.lenient]]\n",
            imported.md5_only
        ))
    }

    /// Writes the users with their hashes.
    pub fn export(&self, file: Option<&Path>) -> Result<(), Error> {
        let Kept::Here(database) = &self.kept else {
            return Err(Error::new(
                "the users are kept on another machine",
                "export them by the tools of that store",
            ));
        };
        if let Some(file) = file {
            must_be_writable(file)?;
            must_be_ordinary(file)?;
        }
        let text = database.borrow_mut().export_users(self.asked_realm())?;
        match file {
            Some(file) => write_whole(file, text.as_bytes(), 0o600),
            None => say(&text),
        }
    }

    /// Whether there is such a user.
    pub(super) fn has(&self, user: &str, realm: &Domain) -> Result<bool, Error> {
        match &self.kept {
            Kept::Here(database) => Ok(database.borrow_mut().has_user(&realm.0, user)?),
            Kept::Elsewhere(store) => store.has(&realm.0, user),
        }
    }

    /// The same; `None` where the store of users does not tell.
    pub(super) fn knows(&self, user: &str, realm: &Domain) -> Result<Option<bool>, Error> {
        match &self.kept {
            Kept::Elsewhere(store) if !store.tells() => Ok(None),
            _ => self.has(user, realm).map(Some),
        }
    }

    /// Whether they are kept on another machine.
    pub(super) fn are_elsewhere(&self) -> bool {
        matches!(self.kept, Kept::Elsewhere(_))
    }

    fn asked_realm(&self) -> Option<&str> {
        self.only.as_ref().map(|domain| domain.0.as_ref())
    }

    /// The domain of names that are given without one.
    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The data folder.
    pub(super) fn data(&self) -> &DataDir {
        &self.data
    }

    /// `alice`, `alice@example.com` or `sip:alice@example.com`, if it may be a user's.
    pub(super) fn parse(&self, name: &str) -> Result<Named, Error> {
        let Named { user, realm } = self.split(name)?;
        let user = valid_user(&user)?;
        Ok(Named { user, realm })
    }

    /// The same for a user who is there, or was: a list may have brought him under a name that
    /// cannot be added here.
    fn parse_of_any(&self, name: &str) -> Result<Named, Error> {
        let Named { user, realm } = self.split(name)?;
        // With the domain behind it once more it is another name of the same user.
        let bare = user
            .strip_suffix(&*realm.0)
            .and_then(|of| of.strip_suffix('@'));
        match bare {
            Some(bare) if self.knows(bare, &realm)? == Some(true) => {
                let user = bare.to_owned();
                Ok(Named { user, realm })
            }
            _ => Ok(Named { user, realm }),
        }
    }

    /// A name and its realm; the name may be any.
    fn split(&self, name: &str) -> Result<Named, Error> {
        let bare = name.strip_prefix("sip:").unwrap_or(name);
        let (user, domain) = match bare.rsplit_once('@') {
            Some((user, domain)) => (
                user,
                domain
                    .parse::<Domain>()
                    .map_err(|error| super::value_error(&error))?,
            ),
            None => (bare, self.domain.clone()),
        };
        Ok(Named {
            user: user.to_owned(),
            realm: self.realm.clone().unwrap_or(domain),
        })
    }
}

pub(super) fn unknown(user: &str, realm: &Domain) -> Error {
    Error::new(
        format!("there is no user {user}@{realm}"),
        "signet user list shows all of them",
    )
}

/// What may be left of a user who was to be removed, each with why, and what to do.
fn may_be_left(done: &str, user: &str, left: [(&str, Option<Error>); 3]) -> Error {
    let (mut parts, mut remedies) = (Vec::new(), Vec::new());
    for (part, error) in left {
        if let Some(error) = error {
            parts.push(format!("{part} ({})", error.what()));
            remedies.push(error.remedy().to_owned());
        }
    }
    remedies.retain(|remedy| !remedy.is_empty());
    remedies.push(format!("then type again: signet user remove {user}"));
    Error::new(
        format!("{done}, and this may be left of him: {}", parts.join("; ")),
        remedies.join("; "),
    )
}

/// A user's name is what stands before the `@` of an address, unescaped.
fn valid_user(user: &str) -> Result<String, Error> {
    let is_good = (1..=128).contains(&user.len())
        && user
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}@:,%[]#".contains(&byte));
    if is_good {
        Ok(user.to_owned())
    } else {
        Err(Error::new(
            format!("`{}` is no name for a user", user.escape_debug()),
            "use letters, digits and - . _ + ~ ! * ' ( ) & = $ ; ? /, for example alice or +4930123456",
        ))
    }
}

/// An error where a list with hashes would go to somebody who has a pipe or a link there, or would
/// take the place of a device.
fn must_be_ordinary(file: &Path) -> Result<(), Error> {
    match std::fs::symlink_metadata(file) {
        Ok(found) if !found.is_file() => Err(Error::new(
            format!("{} is there, and is no ordinary file", file.display()),
            "name a file, or none: then the list goes to the standard output",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users() {
        for good in ["alice", "+4930123456", "a.b-c_d", "*98"] {
            assert_eq!(valid_user(good).unwrap(), good);
        }
        for bad in [
            "",
            "a b",
            "a:b",
            "a@b",
            "a\"b",
            "a\nb",
            "ä",
            "a,b",
            &"x".repeat(129),
        ] {
            assert!(valid_user(bad).is_err(), "{bad}");
        }
    }
}
