//! Where users are registered: as the running server has it, or, where none runs, the
//! database. How contacts are removed, and what becomes of those of a user who is removed.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::{Binding, BindingChange, Location};
use sip_msg::Uri;
use sip_net::clock;
use sip_store::{BindingStore, Bindings, Database};

use super::ask::{ask_if_running, tell};
use super::forget::Named;
use super::socket::{Admin, Answered};
use super::{Form, Instance, lasting, say};
use crate::Error;
use crate::data_dir::DataDir;

/// The version of the answers' form.
const VERSION: u32 = 1;
/// Contacts in one answer, about: it ends with a part of the table.
const PIECE: usize = 5_000;

/// Whose contacts are wanted.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    /// `alice@example.com`; everybody's without it.
    user: Option<String>,
    /// The part of the table to begin with.
    part: usize,
}

/// A piece of the list.
#[derive(Serialize, Deserialize)]
pub(super) struct Piece {
    version: u32,
    /// The part to go on with; `None` after the last.
    next: Option<usize>,
    bindings: Vec<Shown>,
}

/// The whole list.
#[derive(Serialize)]
struct Listed {
    version: u32,
    /// Whether the running server was asked; else it is what the database has.
    is_running: bool,
    bindings: Vec<Shown>,
}

/// A contact of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    /// The address-of-record.
    user: String,
    contact: String,
    expires_in_s: u64,
    /// Since when it is bound, refreshes aside; not there where that is not known.
    age_s: Option<u64>,
    /// Where its last REGISTER came from.
    source: Option<SocketAddr>,
    transport: Option<String>,
    /// The flow that calls go by; without one they go by the contact's URI.
    flow: Option<ShownFlow>,
    /// The node whose flow it is; empty where there is one alone.
    node: String,
    q_thousandths: u16,
    instance: Option<String>,
    reg_id: Option<u32>,
    path: String,
    user_agent: String,
    call_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ShownFlow {
    transport: String,
    local: SocketAddr,
    remote: SocketAddr,
}

/// Which contacts are to be removed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remove {
    /// `alice@example.com`.
    user: String,
    /// A contact's URI; all of them without it.
    contact: Option<String>,
}

/// Users who are removed, and whose contacts are to go with them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemovedUser {
    user: Named,
}

/// How many contacts are gone.
#[derive(Serialize, Deserialize)]
pub(super) struct Removed {
    version: u32,
    contacts: usize,
}

impl Removed {
    fn new(contacts: usize) -> Self {
        Self {
            version: VERSION,
            contacts,
        }
    }
}

impl Shown {
    fn new(aor: &[u8], binding: &Binding, unix_ms: u64) -> Self {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let since_ms = Some(binding.since_unix_ms).filter(|since_ms| *since_ms > 0);
        Self {
            user: text(aor),
            contact: text(&binding.uri),
            expires_in_s: binding.expires_unix_ms.saturating_sub(unix_ms) / 1_000,
            age_s: since_ms.map(|since_ms| unix_ms.saturating_sub(since_ms) / 1_000),
            source: binding.source.map(|(_, source)| source),
            transport: (binding.source).map(|(transport, _)| transport.uri_name().to_owned()),
            flow: binding.flow.map(|flow| ShownFlow {
                transport: flow.transport.uri_name().to_owned(),
                local: flow.local,
                remote: flow.remote,
            }),
            node: binding.node.to_string(),
            q_thousandths: binding.q,
            instance: binding.instance.as_deref().map(text),
            reg_id: binding.reg_id,
            path: text(&binding.path),
            user_agent: text(&binding.user_agent),
            call_id: text(&binding.call_id),
        }
    }

    fn write(&self, text: &mut String) {
        let _ = write!(
            text,
            "{} at {} for {} s",
            self.user, self.contact, self.expires_in_s
        );
        if let (Some(source), Some(transport)) = (self.source, &self.transport) {
            let _ = write!(text, ", from {source} by {transport}");
        }
        if let Some(age_s) = self.age_s {
            let _ = write!(text, ", since {}", lasting(age_s));
        }
        if self.flow.is_some() {
            text.push_str(", on its flow");
        }
        if !self.node.is_empty() {
            let _ = write!(text, ", node {}", self.node);
        }
        if !self.user_agent.is_empty() {
            let _ = write!(text, ", by {}", self.user_agent);
        }
        text.push('\n');
    }
}

/// Answers `/bindings`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(wanted): Json<Wanted>,
) -> Answered<Piece> {
    let location = &admin.sources.location;
    let unix_ms = clock::unix_ms();
    let mut bindings = Vec::new();
    let mut next = None;
    match &wanted.user {
        Some(user) => {
            let aor = aor_of(user);
            let mut found = Vec::new();
            location.find(&aor, unix_ms, &mut found);
            bindings.extend(found.iter().map(|of| Shown::new(&aor, of, unix_ms)));
        }
        None => {
            for part in wanted.part..Location::PARTS {
                location.for_each_in(part, unix_ms, |aor, found| {
                    bindings.extend(found.iter().map(|of| Shown::new(aor, of, unix_ms)));
                });
                if bindings.len() >= PIECE && part + 1 < Location::PARTS {
                    next = Some(part + 1);
                    break;
                }
            }
        }
    }
    Ok(Json(Piece {
        version: VERSION,
        next,
        bindings,
    }))
}

/// Answers `/bindings/remove`.
pub(super) async fn removed(
    State(admin): State<Admin>,
    Json(wanted): Json<Remove>,
) -> Answered<Removed> {
    let contact = wanted.contact.map(|contact| contact.into_bytes().into());
    let removed = admin.remove(aor_of(&wanted.user).into(), contact).await?;
    Ok(Json(Removed::new(removed)))
}

/// Answers `/users/removed`: his credentials are forgotten first, so that no REGISTER of his
/// is let in after his contacts are gone.
pub(super) async fn user_removed(
    State(admin): State<Admin>,
    Json(RemovedUser { user }): Json<RemovedUser>,
) -> Answered<Removed> {
    if let Some(cache) = &admin.cache {
        cache.invalidate(&user.subject());
    }
    let settings = admin.look(0, |shard, _| shard.settings().clone()).await?;
    let configured = settings.authenticate.as_ref();
    let configured = configured.and_then(|auth| auth.realm.as_deref());
    let mut contacts = 0;
    for domain in &settings.domains {
        if configured.unwrap_or(domain) == user.realm {
            let aor = aor_of(&format!("{}@{domain}", user.user));
            contacts += admin.remove(aor.into(), None).await?;
        }
    }
    Ok(Json(Removed::new(contacts)))
}

/// Lists the bindings that are alive, of all users or of one.
pub fn bindings(instance: &Instance, user: Option<&str>, form: Form) -> Result<(), Error> {
    instance.must_exist()?;
    let folder = instance.folder()?;
    let named = user.map(|user| instance.full_name(user)).transpose()?;
    let running = from_server(&folder, named.as_deref())?;
    let is_running = running.is_some();
    let mut bindings = match running {
        Some(bindings) => bindings,
        None => from_database(instance, named.as_deref())?,
    };
    bindings.sort_by(|a, b| a.user.cmp(&b.user));
    let listed = Listed {
        version: VERSION,
        is_running,
        bindings,
    };
    tell(&listed, form, |listed| {
        let mut text = String::new();
        listed.bindings.iter().for_each(|of| of.write(&mut text));
        if text.is_empty() {
            text = match user {
                Some(user) => format!("{user} has no contacts\n"),
                None => "nobody has contacts\n".to_owned(),
            };
        }
        text
    })
}

/// What the running server has; `None` where none runs.
fn from_server(folder: &Path, user: Option<&str>) -> Result<Option<Vec<Shown>>, Error> {
    let mut bindings = Vec::new();
    let mut wanted = Wanted {
        user: user.map(str::to_owned),
        part: 0,
    };
    loop {
        let Some(piece) = ask_if_running::<Piece>(folder, "/bindings", &wanted)? else {
            return Ok(None);
        };
        bindings.extend(piece.bindings);
        match piece.next {
            // It goes forward, or the answers are of another program.
            Some(next) if next > wanted.part => wanted.part = next,
            _ => return Ok(Some(bindings)),
        }
    }
}

/// What the database has.
fn from_database(instance: &Instance, user: Option<&str>) -> Result<Vec<Shown>, Error> {
    let opened = instance.open()?;
    let wanted = user.map(aor_of);
    let now_ms = clock::unix_ms();
    let mut found = Vec::new();
    let mut bindings = opened.data.open_database()?.bindings()?;
    bindings.load(now_ms, &mut |change| {
        if let BindingChange::Put { aor, binding, .. } = change
            && wanted.as_ref().is_none_or(|wanted| *aor == **wanted)
        {
            found.push(Shown::new(&aor, &binding, now_ms));
        }
    })?;
    Ok(found)
}

/// Removes contacts of a user, all of them or one: at the running server, which has stored
/// it before it says so, or, where none runs, in the database.
pub fn bindings_remove(
    instance: &Instance,
    user: &str,
    contact: Option<&str>,
) -> Result<(), Error> {
    instance.must_exist()?;
    let user = instance.full_name(user)?;
    let wanted = Remove {
        user: user.clone(),
        contact: contact.map(str::to_owned),
    };
    let folder = instance.folder()?;
    let contacts = match ask_if_running::<Removed>(&folder, "/bindings/remove", &wanted)? {
        Some(removed) => removed.contacts,
        None => {
            let aor = aor_of(&user);
            let is_meant = |uri: &[u8]| contact.is_none_or(|contact| is_same(contact, uri));
            remove_in_database(&instance.open()?.data, |its, binding| {
                *its == *aor && is_meant(&binding.uri)
            })?
        }
    };
    match (contacts, contact) {
        (0, Some(contact)) => Err(Error::new(
            format!("{user} has no contact {contact}"),
            format!("signet bindings {user} shows those that there are"),
        )),
        (0, None) => Err(Error::new(
            format!("{user} has no contacts"),
            "signet bindings shows who has some",
        )),
        (1, _) => say(&format!("removed 1 contact of {user}\n")),
        (count, _) => say(&format!("removed {count} contacts of {user}\n")),
    }
}

/// Ends the contacts of a user who is removed; how many. `is_one_realm` is whether users of
/// all domains have that realm.
pub(super) fn end_of_user(
    data: &DataDir,
    user: &str,
    realm: &str,
    is_one_realm: bool,
) -> Result<usize, Error> {
    let wanted = RemovedUser {
        user: Named {
            user: user.to_owned(),
            realm: realm.to_owned(),
        },
    };
    if let Some(removed) = ask_if_running::<Removed>(data.path(), "/users/removed", &wanted)? {
        return Ok(removed.contacts);
    }
    remove_in_database(data, |aor, _| {
        let aor = aor.strip_prefix(b"sip:").unwrap_or(aor);
        let bare = aor.strip_prefix(user.as_bytes());
        let domain = bare.and_then(|rest| rest.strip_prefix(b"@"));
        domain.is_some_and(|domain| match is_one_realm {
            true => !domain.contains(&b'@'),
            false => domain == realm.as_bytes(),
        })
    })
}

/// Removes contacts where no server runs, nor begins to.
fn remove_in_database(
    data: &DataDir,
    is_meant: impl Fn(&[u8], &Binding) -> bool,
) -> Result<usize, Error> {
    let _no_server = data.lock()?;
    let mut bindings: Bindings = Database::open(&data.database())?.bindings()?;
    let mut changes = Vec::new();
    bindings.load(0, &mut |change| {
        if let BindingChange::Put { aor, key, binding } = change
            && is_meant(&aor, &binding)
        {
            changes.push(BindingChange::Remove { aor, key });
        }
    })?;
    bindings.save(&mut changes.iter())?;
    Ok(changes.len())
}

/// The address-of-record of `alice@example.com`, as the registrar writes it.
fn aor_of(user: &str) -> Vec<u8> {
    let (name, domain) = user.rsplit_once('@').unwrap_or((user, ""));
    format!("sip:{name}@{}", domain.to_ascii_lowercase()).into_bytes()
}

/// Whether a contact is the one that the operator names.
fn is_same(named: &str, bound: &[u8]) -> bool {
    let uris = Uri::parse(named.as_bytes()).zip(Uri::parse(bound));
    named.as_bytes() == bound || uris.is_some_and(|(named, bound)| named.equals(&bound))
}

#[cfg(test)]
mod tests {
    use sip_msg::Transport;

    use super::*;

    fn shown(change: impl FnOnce(&mut Binding)) -> String {
        let mut binding = Binding {
            uri: (*b"sip:alice@192.0.2.7\x1b[2J").into(),
            q: 1_000,
            expires_unix_ms: 700_000,
            call_id: (*b"c").into(),
            cseq: 1,
            instance: None,
            reg_id: None,
            path: Box::default(),
            flow: None,
            user_agent: Box::default(),
            node: "".into(),
            since_unix_ms: 0,
            source: None,
            is_translated: false,
            had_flow: false,
        };
        change(&mut binding);
        let mut text = String::new();
        Shown::new(b"sip:alice@example.com", &binding, 100_000).write(&mut text);
        text
    }

    #[test]
    fn a_contact_is_one_line_that_no_terminal_obeys() {
        let start = "sip:alice@example.com at sip:alice@192.0.2.7\\x1b[2J for 600 s";
        assert_eq!(shown(|_| {}), format!("{start}\n"));
        let whole = shown(|binding| {
            binding.since_unix_ms = 40_000;
            binding.source = Some((Transport::Tls, "192.0.2.7:4000".parse().unwrap()));
            binding.user_agent = (*b"Phone\n1").into();
            binding.node = "n1".into();
        });
        let rest = ", from 192.0.2.7:4000 by tls, since 60 s, node n1, by Phone\\n1\n";
        assert_eq!(whole, format!("{start}{rest}"));
    }

    #[test]
    fn a_user_has_one_address_of_record() {
        assert_eq!(aor_of("alice@Example.COM"), b"sip:alice@example.com");
        assert_eq!(aor_of("Al@x@example.com"), b"sip:Al@x@example.com");
        assert!(is_same("sip:a@192.0.2.7", b"sip:a@192.0.2.7"));
        assert!(is_same("sip:%61@192.0.2.7", b"sip:a@192.0.2.7"));
        assert!(!is_same("sip:a@192.0.2.8", b"sip:a@192.0.2.7"));
    }
}
