//! Aliases, and what is written of users: from the data folder's database into what the engine
//! goes by. It is read at the start, at a reload, and when a command has changed it.

use std::sync::Arc;

use sip_engine::Directory;
use sip_engine::numbers::NumberRules;
use sip_engine::people::{AliasTarget, Forwards, Person};
use sip_store::{Database, PersonRow};
use tokio::sync::{mpsc, oneshot};

use crate::Error;
use crate::config::{Config, Domain};

/// Commands that wait for it to be read; past it the next is told to try again.
const ASKED_MAX: usize = 16;

/// By what users are named to others.
#[derive(Clone, Copy)]
pub(crate) struct Hosts<'a> {
    /// The realm of all users, where it is not their domain.
    realm: Option<&'a Domain>,
    /// The default domain.
    first: Option<&'a Domain>,
}

impl<'a> Hosts<'a> {
    pub(crate) fn of(config: &'a Config, domains: &'a [Domain]) -> Self {
        Self {
            realm: config.authentication.realm.as_ref(),
            first: domains.first(),
        }
    }

    /// The domain of a user.
    fn domain(self, realm: &'a str) -> &'a str {
        match (self.realm, self.first) {
            (Some(own), Some(first)) if *own.0 == *realm => &first.0,
            _ => realm,
        }
    }
}

/// Reads all of it.
pub(crate) fn read(
    database: &mut Database,
    rules: &NumberRules,
    hosts: Hosts<'_>,
) -> Result<Directory, Error> {
    let mut directory = Directory::default();
    let rows = database.aliases()?;
    for of_one in rows.chunk_by(|a, b| (&a.name, &a.domain) == (&b.name, &b.domain)) {
        let Some(first) = of_one.first() else {
            continue;
        };
        let targets = of_one.iter().map(|row| AliasTarget {
            uri: row.target.as_bytes().into(),
            q: row.q.min(1_000),
        });
        let aor = format!("sip:{}@{}", first.name, first.domain);
        directory.add_alias(aor.as_bytes(), targets.collect(), rules);
    }
    for row in database.people()? {
        if let Some(group) = &row.group
            && !rules.groups.contains_key(group.as_str())
        {
            tracing::warn!(
                "{}@{} is in the group {group}, and there is no [[user_group]] of that name: without permissions of his own he calls users of ours and nobody else",
                row.user,
                row.realm
            );
        }
        directory.add_person(person_of(row, rules, hosts), rules);
    }
    Ok(directory)
}

fn person_of(row: PersonRow, rules: &NumberRules, hosts: Hosts<'_>) -> Person {
    let uri = |text: Option<String>| text.map(|text| Arc::from(text.as_bytes()));
    let aor = format!("sip:{}@{}", row.user, hosts.domain(&row.realm));
    Person {
        aor: aor.as_bytes().into(),
        name: row.user.as_bytes().into(),
        realm: row.realm.as_str().into(),
        group: row.group.map(Into::into),
        // A word that nobody knows lets nobody call far.
        permission: row.permissions.map(|word| {
            let known = word.parse();
            known.unwrap_or(sip_engine::numbers::Permission::Internal)
        }),
        // Numbers are E.164 inside, however somebody has typed them.
        caller_id: row.caller_id.map(|number| {
            let global = rules.global(&number);
            global.unwrap_or(number).into()
        }),
        calls_max: row.calls_max,
        forwards: Forwards {
            always: uri(row.forward_always),
            busy: uri(row.forward_busy),
            no_answer: uri(row.forward_no_answer),
            no_answer_s: row.no_answer_s.unwrap_or(0),
        },
    }
}

/// Whoever asked for it to be read again waits for what came of it.
pub(crate) type Asked = oneshot::Sender<Result<(), (String, String)>>;
/// Where it is asked for.
pub(crate) type PeopleAsker = mpsc::Sender<Asked>;

/// Commands that have changed what is written.
pub(crate) struct PeopleAsked {
    asker: PeopleAsker,
    asked: mpsc::Receiver<Asked>,
}

impl PeopleAsked {
    pub(crate) fn new() -> Self {
        let (asker, asked) = mpsc::channel(ASKED_MAX);
        Self { asker, asked }
    }

    /// Where it is asked for.
    pub(crate) fn asker(&self) -> PeopleAsker {
        self.asker.clone()
    }

    /// All who wait, once anybody does: one reading serves them all.
    pub(crate) async fn next(&mut self) -> Vec<Asked> {
        let mut all = Vec::new();
        // Its own sender is here, so it does not end.
        all.extend(self.asked.recv().await);
        while let Ok(next) = self.asked.try_recv() {
            all.push(next);
        }
        all
    }

    /// Nobody is heard any more. Who waits, or comes, is told so by his end of the way.
    pub(crate) fn close(&mut self) {
        self.asked.close();
        while self.asked.try_recv().is_ok() {}
    }

    /// Tells them.
    pub(crate) fn answer(asked: Vec<Asked>, told: &Result<(), Error>) {
        for of_one in asked {
            let told = match told {
                Ok(()) => Ok(()),
                Err(error) => Err((error.what().to_owned(), error.remedy().to_owned())),
            };
            // Who asked may have gone.
            let _ = of_one.send(told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_when_nobody_is_heard_any_more_is_told_so() {
        let mut people = PeopleAsked::new();
        let (tell, mut told) = oneshot::channel();
        assert!(people.asker().try_send(tell).is_ok());
        people.close();
        assert_eq!(told.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        let (tell, _told) = oneshot::channel();
        let refused = people.asker().try_send(tell);
        assert!(matches!(refused, Err(mpsc::error::TrySendError::Closed(_))));
    }

    #[test]
    fn a_user_is_named_by_his_domain_and_an_unknown_word_keeps_him_in_the_house() {
        let (realm, first): (Domain, Domain) = (
            "calls.example".parse().unwrap(),
            "example.org".parse().unwrap(),
        );
        let row = |realm: &str| PersonRow {
            user: "alice".to_owned(),
            realm: realm.to_owned(),
            permissions: Some("everywhere".to_owned()),
            caller_id: Some("030333".to_owned()),
            ..PersonRow::default()
        };
        let hosts = Hosts {
            realm: Some(&realm),
            first: Some(&first),
        };
        let rules = NumberRules {
            country_code: "49".into(),
            ..NumberRules::default()
        };
        let alice = person_of(row("calls.example"), &rules, hosts);
        assert_eq!(alice.caller_id.as_deref(), Some("+4930333"));
        assert_eq!(&*alice.aor, b"sip:alice@example.org");
        let other = person_of(row("example.net"), &rules, hosts);
        assert_eq!(&*other.aor, b"sip:alice@example.net");
        assert_eq!(
            other.permission,
            Some(sip_engine::numbers::Permission::Internal)
        );
    }
}
