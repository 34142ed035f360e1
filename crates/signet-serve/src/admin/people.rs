//! Names and people: where aliases lead, and what each user may do. It is kept in the data
//! folder, and a running server takes a change over before the command returns.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use sip_engine::numbers::Permission;
use sip_engine::people::NO_ANSWER_S;
use sip_msg::Uri;
use sip_msg::uri::Scheme;
use sip_store::{AliasRow, Database, PersonRow, StoreError, StoreErrorKind};

use super::socket::{Admin, Refused};
use super::users::{Named, unknown};
use super::{Instance, Users, ask, say};
use crate::Error;
use crate::config::{Config, Domain};
use crate::data_dir::DataDir;

/// What takes a setting of a user back.
const NOTHING: &str = "-";
/// The most seconds that a phone rings before its call is forwarded.
const NO_ANSWER_S_MAX: u32 = 180;

/// What is to be changed of a user; what is `None` stays, and `-` takes back.
#[derive(Clone, Debug, Default)]
pub struct UserChanges {
    /// How far he may call.
    pub permissions: Option<String>,
    /// The group that he is in.
    pub group: Option<String>,
    /// The number that he shows.
    pub caller_id: Option<String>,
    /// How many outgoing calls he may have at once.
    pub calls_max: Option<String>,
    /// Where all his calls go.
    pub forward_always: Option<String>,
    /// Where calls go while he is busy.
    pub forward_busy: Option<String>,
    /// Where those go that he does not take.
    pub forward_no_answer: Option<String>,
    /// After how many seconds.
    pub no_answer_s: Option<String>,
}

/// Words with which a forward might be taken back, and which are names of users here.
const NO_PLACES: [&str; 6] = ["off", "none", "no", "never", "nobody", "false"];
/// The fewest digits of a number that begins with its country's code.
const GLOBAL_DIGITS_MIN: usize = 7;

/// Aliases, and what is written of users.
pub struct People {
    users: Users,
    database: Database,
    /// The configuration, where its file was named.
    config: Option<Config>,
}

impl People {
    /// Opens them; `domain` is that of names which are given without one.
    pub fn open(instance: &Instance, domain: Option<Domain>) -> Result<Self, Error> {
        let users = Users::open(instance, domain)?;
        let database = users.data().open_database()?;
        let config = match instance {
            Instance::Config(path) => Some(Config::from_file(path)?),
            Instance::Data(_) => None,
        };
        Ok(Self {
            users,
            database,
            config,
        })
    }

    /// Adds targets to an alias.
    pub fn alias_add(&mut self, name: &str, targets: &[String]) -> Result<(), Error> {
        let (name, domain) = self.named(name)?;
        self.check_name(&name, &domain)?;
        let rows = targets.iter().map(|target| {
            let (target, q) = with_preference(target)?;
            Ok(AliasRow {
                name: name.clone(),
                domain: domain.clone(),
                target: self.uri_of(target)?,
                q,
            })
        });
        let rows: Vec<AliasRow> = rows.collect::<Result<_, Error>>()?;
        let written = self.database.add_alias(&rows);
        written.map_err(|error| with_remedy(error, "signet alias list shows where each leads"))?;
        let to: Vec<&str> = rows.iter().map(|row| shown(&row.target)).collect();
        say(&format!("{name}@{domain} leads to {}\n", to.join(", ")))?;
        for row in &rows {
            self.note_nobody(&row.target)?;
        }
        tell(self.users.data())
    }

    /// Removes an alias, or one of its targets.
    pub fn alias_remove(&mut self, name: &str, target: Option<&str>) -> Result<(), Error> {
        let (name, domain) = self.named(name)?;
        let target = target.map(|target| self.uri_of(target)).transpose()?;
        let removed = self
            .database
            .remove_alias(&name, &domain, target.as_deref())?;
        match (removed, &target) {
            (0, None) => {
                return Err(Error::new(
                    format!("there is no alias {name}@{domain}"),
                    "signet alias list shows all of them",
                ));
            }
            (0, Some(target)) => {
                return Err(Error::new(
                    format!("{name}@{domain} does not lead to {}", shown(target)),
                    "signet alias list shows where it leads",
                ));
            }
            (_, None) => say(&format!("removed {name}@{domain}\n"))?,
            (_, Some(target)) => say(&format!(
                "{name}@{domain} leads to {} no more\n",
                shown(target)
            ))?,
        }
        tell(self.users.data())
    }

    /// Lists aliases, each with its targets.
    pub fn alias_list(&mut self) -> Result<(), Error> {
        let mut text = String::new();
        for row in self.database.aliases()? {
            let _ = write!(text, "{}@{}  {}", row.name, row.domain, shown(&row.target));
            if row.q < 1_000 {
                let _ = write!(text, ";q={}", preference(row.q));
            }
            text.push('\n');
        }
        say(&text)
    }

    /// Changes what is written of a user.
    pub fn user_set(&mut self, name: &str, changes: &UserChanges) -> Result<(), Error> {
        let Named { user, realm } = self.known(name)?;
        let before = self.database.person(&realm.0, &user)?;
        let mut person = before.unwrap_or_else(|| PersonRow {
            user: user.clone(),
            realm: realm.0.to_string(),
            ..PersonRow::default()
        });
        self.change(&mut person, changes)?;
        let written = self.database.put_person(&person);
        written.map_err(|error| {
            with_remedy(
                error,
                "signet alias list, and signet user show NAME of each of them, show where calls go",
            )
        })?;
        say(&text_of(&person))?;
        for (instance, changed) in [
            (&person.forward_always, &changes.forward_always),
            (&person.forward_busy, &changes.forward_busy),
            (&person.forward_no_answer, &changes.forward_no_answer),
        ] {
            if let (Some(instance), Some(_)) = (instance, changed) {
                self.note_nobody(instance)?;
            }
        }
        tell(self.users.data())
    }

    /// Shows what is written of a user.
    pub fn user_show(&mut self, name: &str) -> Result<(), Error> {
        let Named { user, realm } = self.known(name)?;
        let person = self.database.person(&realm.0, &user)?;
        let person = person.unwrap_or_else(|| PersonRow {
            user,
            realm: realm.0.to_string(),
            ..PersonRow::default()
        });
        say(&text_of(&person))
    }

    fn change(&self, person: &mut PersonRow, changes: &UserChanges) -> Result<(), Error> {
        let given =
            |value: &Option<String>| value.clone().map(|text| (text != NOTHING).then_some(text));
        if let Some(word) = given(&changes.permissions) {
            if let Some(word) = &word {
                word.parse::<Permission>()
                    .map_err(|remedy| Error::new(format!("`{word}` is no permission"), remedy))?;
            }
            person.permissions = word;
        }
        if let Some(group) = given(&changes.group) {
            if let Some(group) = &group {
                self.check_group(group)?;
            }
            person.group = group;
        }
        if let Some(number) = given(&changes.caller_id) {
            person.caller_id = number.map(|number| digits_of(&number)).transpose()?;
        }
        if let Some(max) = given(&changes.calls_max) {
            person.calls_max = number_of(max, "calls", (0, 1_000_000))?;
        }
        if let Some(seconds) = given(&changes.no_answer_s) {
            person.no_answer_s = number_of(seconds, "seconds", (1, NO_ANSWER_S_MAX))?;
        }
        let is_himself = |to: &str| {
            let named = self.users.parse(shown(to));
            named.is_ok_and(|of| of.user == person.user && *of.realm.0 == *person.realm)
        };
        let own = format!("{}@{}", person.user, person.realm);
        for (to, instance) in [
            (given(&changes.forward_always), &mut person.forward_always),
            (given(&changes.forward_busy), &mut person.forward_busy),
            (
                given(&changes.forward_no_answer),
                &mut person.forward_no_answer,
            ),
        ] {
            if let Some(to) = to {
                let to = to.map(|to| self.place_of(&to)).transpose()?;
                if to.as_deref().is_some_and(is_himself) {
                    return Err(Error::new(
                        format!("{own} would forward his calls to himself"),
                        "name another place, or write - to take it back",
                    ));
                }
                *instance = to;
            }
        }
        Ok(())
    }

    /// A user who is there, as far as the store of users tells.
    fn known(&self, name: &str) -> Result<Named, Error> {
        let named = self.users.parse(name)?;
        match self.users.knows(&named.user, &named.realm)? {
            Some(false) => Err(unknown(&named.user, &named.realm)),
            Some(true) | None => Ok(named),
        }
    }

    /// Whether a name may be an alias.
    fn check_name(&mut self, name: &str, domain: &str) -> Result<(), Error> {
        if let Some(digits) = name.strip_prefix('+')
            && digits.len() < GLOBAL_DIGITS_MIN
        {
            return Err(Error::new(
                format!("`{name}` is too short for a number with its country's code"),
                "write it in one piece, or in quotes: signet alias add \"+49 30 555100\" alice",
            ));
        }
        let own = self.domains()?;
        if !own.iter().any(|known| known == domain) && !self.users.are_elsewhere() {
            return Err(Error::new(
                format!("`{domain}` is no domain of this server"),
                format!(
                    "its domains are {}; signet domain add adds one",
                    own.join(", ")
                ),
            ));
        }
        // What no user can be called is none.
        let Ok(Named { user, realm }) = self.users.parse(&format!("{name}@{domain}")) else {
            return Ok(());
        };
        match self.users.knows(&user, &realm)? {
            Some(true) => Err(Error::new(
                format!(
                    "{name}@{domain} is a user, and an alias comes before him: his phones would not ring"
                ),
                format!(
                    "for another number of his the number comes first: signet alias add +4930555100 {name}; to send his calls elsewhere: signet user set {name} --forward-always TO"
                ),
            )),
            Some(false) | None => Ok(()),
        }
    }

    /// The domains of this server, as far as they are written down here.
    fn domains(&mut self) -> Result<Vec<String>, Error> {
        let mut own = vec![self.users.domain().to_string()];
        let configured = self.config.iter().flat_map(|config| &config.domains);
        let configured = configured.map(ToString::to_string);
        for domain in configured.chain(self.database.domains()?) {
            if !own.contains(&domain) {
                own.push(domain);
            }
        }
        Ok(own)
    }

    fn check_group(&self, group: &str) -> Result<(), Error> {
        let Some(config) = &self.config else {
            return say(
                "note: whether there is such a [[user_group]] is seen with --config FILE alone; without one he calls users of ours and nobody else\n",
            );
        };
        let mut names = config.user_group.iter().map(|of| of.name.as_str());
        if names.any(|name| name == group) {
            return Ok(());
        }
        let names: Vec<&str> = (config.user_group.iter())
            .map(|of| of.name.as_str())
            .collect();
        Err(Error::new(
            format!(
                "there is no [[user_group]] named `{}`",
                group.escape_debug()
            ),
            match names.is_empty() {
                true => "write it into the configuration first".to_owned(),
                false => format!("there are: {}", names.join(", ")),
            },
        ))
    }

    /// Says so where a name of ours leads to nobody: he may come later, or be misspelt.
    fn note_nobody(&mut self, uri: &str) -> Result<(), Error> {
        let bare = shown(uri);
        let Some((name, domain)) = bare.rsplit_once('@') else {
            return Ok(());
        };
        if is_number(name) || !self.domains()?.iter().any(|own| own == domain) {
            return Ok(());
        }
        let Ok(Named { user, realm }) = self.users.parse(bare) else {
            return Ok(());
        };
        let is_known = self.users.knows(&user, &realm)? != Some(false)
            || self.database.has_alias(name, domain)?;
        match is_known {
            true => Ok(()),
            false => say(&format!("note: there is no user and no alias {bare} yet\n")),
        }
    }

    /// Where somebody forwards his calls to.
    fn place_of(&self, text: &str) -> Result<String, Error> {
        match NO_PLACES.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            true => Err(Error::new(
                format!("`{text}` would be the name of a user"),
                format!(
                    "write - to take a forward back; for a user of that name {text}@{}",
                    self.users.domain()
                ),
            )),
            false => self.uri_of(text),
        }
    }

    /// A name or number, and its domain.
    fn named(&self, text: &str) -> Result<(String, String), Error> {
        let uri = self.uri_of(text)?;
        let bare = uri.strip_prefix("sip:").unwrap_or(&uri);
        match bare.rsplit_once('@') {
            Some((name, domain)) => Ok((name.to_owned(), domain.to_owned())),
            None => Err(no_name(text)),
        }
    }

    /// The URI that a name, a number or a URI stands for: without a domain, of the default one.
    fn uri_of(&self, text: &str) -> Result<String, Error> {
        let domain = self.users.domain();
        let after = |scheme: &str| {
            let (front, rest) = text.split_at_checked(scheme.len())?;
            front.eq_ignore_ascii_case(scheme).then_some(rest)
        };
        let bare = after("tel:").or_else(|| after("sip:"));
        let (scheme, rest) = match after("sips:") {
            Some(rest) => ("sips:", rest),
            None => ("sip:", bare.unwrap_or(text)),
        };
        let (name, host) = match rest.rsplit_once('@') {
            Some((name, host)) => (name, host.to_ascii_lowercase()),
            None => (rest, domain.to_string()),
        };
        if let Some(sign) = name.chars().find(|sign| ";,".contains(*sign)) {
            return Err(Error::new(
                format!("`{}` has a `{sign}` in its name", text.escape_debug()),
                "write several targets with spaces between, and a preference as bob;q=0.5",
            ));
        }
        let name = match is_number(name) {
            true => digits_of(name)?,
            false => name.to_owned(),
        };
        let uri = format!("{scheme}{name}@{host}");
        let is_good = Uri::parse(uri.as_bytes()).is_some_and(|uri| {
            uri.user.is_some_and(|user| !user.contains(&b'%'))
                && uri.password.is_none()
                && uri.headers.is_empty()
                && uri.scheme != Scheme::Other
        });
        match is_good && uri.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(uri),
            false => Err(no_name(text)),
        }
    }
}

/// Answers `/people/read`.
pub(super) async fn read_again(
    State(admin): State<Admin>,
    Json(()): Json<()>,
) -> Result<StatusCode, Refused> {
    admin.read_people().await.map(|()| StatusCode::NO_CONTENT)
}

/// Forgets what was written of a user who is removed: whoever gets the name after him does not
/// get his calls, and may not call as far. Whether there was anything. A running server is told
/// then; where the user himself was not there any more, in any case: who removed him may have come
/// no further.
pub(super) fn forget(
    data: &DataDir,
    user: &str,
    realm: &str,
    user_was_there: bool,
) -> Result<bool, Error> {
    let was_written = data.open_database()?.remove_person(realm, user)?;
    if was_written || !user_was_there {
        tell(data)?;
    }
    Ok(was_written)
}

/// Has a running server take the change over.
fn tell(data: &DataDir) -> Result<(), Error> {
    let told = ask::ask_if_running::<()>(data.path(), "/people/read", &());
    told.map(|_| ()).map_err(|error| {
        let remedy = match error.remedy() {
            "" => "it will at the next such command or a reload: kill -HUP",
            remedy => remedy,
        };
        Error::new(
            format!(
                "the change is made, and the running server may not go by it yet: {}",
                error.what()
            ),
            remedy,
        )
    })
}

fn no_name(text: &str) -> Error {
    Error::new(
        format!("`{}` is no name, number or URI", text.escape_debug()),
        "write alice, alice@example.com, +4930123456 or sip:bob@example.net",
    )
}

fn is_number(name: &str) -> bool {
    let is_written = |byte: u8| byte.is_ascii_digit() || b"+-.() *#".contains(&byte);
    name.bytes().any(|byte| byte.is_ascii_digit()) && name.bytes().all(is_written)
}

/// A number without visual separators.
fn digits_of(text: &str) -> Result<String, Error> {
    let number: String = text.chars().filter(|c| !"-.() ".contains(*c)).collect();
    let digits = number.strip_prefix('+').unwrap_or(&number);
    let is_dialled = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'*' | b'#');
    match (1..=32).contains(&digits.len()) && digits.bytes().all(is_dialled) {
        true => Ok(number),
        false => Err(Error::new(
            format!("`{}` is no number", text.escape_debug()),
            "write digits, with or without a +, for example +4930123456",
        )),
    }
}

/// What the database says, and what to do.
fn with_remedy(error: StoreError, remedy: &str) -> Error {
    match error.kind() {
        StoreErrorKind::Input => Error::new(error.to_string(), remedy),
        _ => error.into(),
    }
}

fn number_of(
    text: Option<String>,
    what: &str,
    (min, max): (u32, u32),
) -> Result<Option<u32>, Error> {
    let Some(text) = text else {
        return Ok(None);
    };
    let number = text.parse().ok();
    let number = number.filter(|number| (min..=max).contains(number));
    number.map(Some).ok_or_else(|| {
        Error::new(
            format!("`{}` is no number of {what}", text.escape_debug()),
            format!("write a number from {min} to {max}, or - to take it back"),
        )
    })
}

/// A target, and how it is preferred: `bob;q=0.5`.
fn with_preference(text: &str) -> Result<(&str, u16), Error> {
    let Some((target, q)) = text.rsplit_once(";q=") else {
        return Ok((text, 1_000));
    };
    let fault = || {
        Error::new(
            format!("`{}` is no preference", q.escape_debug()),
            "write a number from 0.001 to 1, for example bob;q=0.5",
        )
    };
    let (whole, part) = q.split_once('.').unwrap_or((q, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !matches!(whole, "0" | "1") || part.len() > 3 || !is_digits(part) {
        return Err(fault());
    }
    let thousandths: u16 = format!("{part:0<3}").parse().map_err(|_| fault())?;
    let q = thousandths + if whole == "1" { 1_000 } else { 0 };
    match (1..=1_000).contains(&q) {
        true => Ok((target, q)),
        false => Err(fault()),
    }
}

fn preference(q: u16) -> String {
    let text = format!("0.{q:03}");
    text.trim_end_matches('0').to_owned()
}

/// A URI as people write it.
fn shown(uri: &str) -> &str {
    uri.strip_prefix("sip:").unwrap_or(uri)
}

fn text_of(person: &PersonRow) -> String {
    let mut text = format!("{}@{}\n", person.user, person.realm);
    let mut line = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "  {what:<18} {value}");
        }
    };
    let told = |uri: &Option<String>| uri.as_deref().map(|uri| shown(uri).to_owned());
    line("permissions", person.permissions.clone());
    line("group", person.group.clone());
    line("caller-id", person.caller_id.clone());
    line("calls-max", person.calls_max.map(|max| max.to_string()));
    line("forward-always", told(&person.forward_always));
    line("forward-busy", told(&person.forward_busy));
    line("forward-no-answer", told(&person.forward_no_answer));
    // What is written is shown where it has no effect yet, too.
    let usual = person.forward_no_answer.as_ref().map(|_| NO_ANSWER_S);
    let rings_s = person.no_answer_s.or(usual);
    line("no-answer-s", rings_s.map(|seconds| seconds.to_string()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_and_shown() {
        for (text, q, again) in [
            ("bob", 1_000, ""),
            ("bob;q=1", 1_000, ""),
            ("bob;q=0.5", 500, "0.5"),
            ("bob;q=0.25", 250, "0.25"),
            ("bob;q=0.001", 1, "0.001"),
        ] {
            assert_eq!(with_preference(text).unwrap(), ("bob", q), "{text}");
            if q < 1_000 {
                assert_eq!(preference(q), again);
            }
        }
        for bad in [
            "b;q=",
            "b;q=2",
            "b;q=1.1",
            "b;q=0",
            "b;q=0.0001",
            "b;q=x",
            "b;q=0.5.5",
        ] {
            assert!(with_preference(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_written_in_one_way() {
        assert_eq!(digits_of("+49 (30) 12-34.5").unwrap(), "+493012345");
        assert_eq!(digits_of("*98").unwrap(), "*98");
        for bad in ["", "+", "4a", "++49", "4+9", &"1".repeat(33)] {
            assert!(digits_of(bad).is_err(), "{bad}");
        }
        assert!(is_number("+49 30") && !is_number("alice") && !is_number("a1") && !is_number("()"));
    }

    #[test]
    fn what_is_written_is_shown() {
        let person = PersonRow {
            user: "alice".to_owned(),
            realm: "example.org".to_owned(),
            calls_max: Some(2),
            forward_no_answer: Some("sip:bob@example.org".to_owned()),
            ..PersonRow::default()
        };
        assert_eq!(
            text_of(&person),
            "alice@example.org\n  calls-max          2\n  forward-no-answer  bob@example.org\n  no-answer-s        20\n"
        );
        let person = PersonRow {
            no_answer_s: Some(10),
            calls_max: None,
            forward_no_answer: None,
            ..person
        };
        assert_eq!(
            text_of(&person),
            "alice@example.org\n  no-answer-s        10\n"
        );
    }
}
