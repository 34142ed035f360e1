//! `signet trunks`: the trunks of a running server, how each is registered, and whether its
//! password is taken.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::trunk::{Failure, Shown as Known, State as Standing, Trunk};
use sip_net::clock;

use super::ask::{Nothing, ask_running, tell};
use super::socket::{Admin, Answered};
use super::{Form, Instance, lasting};
use crate::Error;

/// The version of the answer's form.
const VERSION: u32 = 1;
/// What is said where no server runs.
const OTHERWISE: &str = "signet check FILE says what a configuration comes to";

/// The trunks of the configuration.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    trunks: Vec<Shown>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    /// The name of its group.
    trunk: String,
    /// What is registered, if anything is: `sip:USER@DOMAIN`.
    account: Option<String>,
    /// `asking`, `registered`, `failing`, `ended`; none before the first REGISTER.
    state: Option<String>,
    /// Why it is failing, and the status of that answer.
    why: Option<String>,
    /// For how long it has been so.
    since_s: u64,
    /// How long the contact is bound or, where it is not, until it is asked for again.
    left_s: u64,
    /// The member that answered last, and its status.
    member: Option<SocketAddr>,
    last_status: Option<u16>,
    failures_in_a_row: u32,
    registered_total: u64,
    failed_total: u64,
    /// Whether its challenges are answered, and of which realm.
    realm: Option<String>,
    /// How much longer nothing is sent to it because its password was refused.
    refused_for_s: u64,
    refused_total: u64,
}

impl Shown {
    fn new(trunk: &Trunk, known: &Known) -> Self {
        let account = trunk.registering.as_ref();
        let failure = match known.state {
            Some(Standing::Failing(why)) => Some(why),
            _ => None,
        };
        Self {
            trunk: trunk.name.to_string(),
            account: account.map(|_| format!("sip:{}@{}", trunk.account, trunk.domain)),
            state: known.state.map(|state| state.name().to_owned()),
            why: failure.map(|why| why.name().to_owned()),
            since_s: known.state.map_or(0, |_| known.age_ms / 1_000),
            left_s: known.left_ms.div_ceil(1_000),
            member: known.member,
            last_status: known.last_status,
            failures_in_a_row: known.failures_in_a_row,
            registered_total: known.registered_total,
            failed_total: known.failed_total,
            realm: (trunk.credentials.as_ref()).map(|of| of.realm.to_string()),
            refused_for_s: known.refused_for_ms.div_ceil(1_000),
            refused_total: known.refused_total,
        }
    }

    fn write(&self, text: &mut String) {
        let _ = write!(text, "{}: ", self.trunk);
        match (&self.account, self.state.as_deref()) {
            (None, _) => text.push_str("nothing is registered"),
            (Some(account), Some("registered")) => {
                let (since, left) = (lasting(self.since_s), lasting(self.left_s));
                let _ = write!(
                    text,
                    "{account} is registered since {since}, for {left} more"
                );
            }
            (Some(account), Some("failing")) => {
                let (since, left) = (lasting(self.since_s), lasting(self.left_s));
                let why = self.why.as_deref().unwrap_or("refused");
                let _ = write!(
                    text,
                    "{account} is not registered since {since} ({why}, {} in a row), asked for again in {left}",
                    self.failures_in_a_row
                );
            }
            (Some(account), Some("ended")) => {
                let _ = write!(text, "the registration of {account} was taken back");
            }
            (Some(account), _) => {
                let _ = write!(text, "{account} is being registered");
            }
        }
        if let (Some(member), Some(status)) = (self.member, self.last_status) {
            let _ = write!(text, "; {member} answered {status}");
        }
        if let Some(realm) = &self.realm {
            let _ = write!(text, "; challenges of realm \"{realm}\" are answered");
            if self.why.as_deref() == Some(Failure::ForeignRealm.name()) {
                text.push_str(" and no others: the log says which realm it asks for");
            }
        }
        if self.refused_for_s > 0 {
            let left = lasting(self.refused_for_s);
            let _ = write!(
                text,
                "; its password was refused, nothing is sent to it for {left}"
            );
        }
        text.push('\n');
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        self.trunks.iter().for_each(|of| of.write(&mut text));
        if text.is_empty() {
            text.push_str("no trunks are configured\n");
        }
        text
    }
}

/// Answers `/trunks`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Listed> {
    let settings = admin.look(0, |shard, _| shard.settings().clone()).await?;
    let (shared, now_ms) = (&admin.sources.gateways.trunks, clock::now_ms());
    let groups = settings.routes.groups.iter();
    let trunks = groups.filter_map(|group| group.trunk.as_ref());
    let shown = trunks.map(|trunk| Shown::new(trunk, &shared.shown(&trunk.name, now_ms)));
    Ok(Json(Listed {
        version: VERSION,
        trunks: shown.collect(),
    }))
}

/// Prints the trunks and how they stand.
pub fn trunks(instance: &Instance, form: Form) -> Result<(), Error> {
    let listed: Listed = ask_running(instance, "/trunks", &Nothing {}, OTHERWISE)?;
    tell(&listed, form, Listed::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        Shown {
            trunk: "p".to_owned(),
            account: Some("sip:4930@p.example".to_owned()),
            state: Some("registered".to_owned()),
            why: None,
            since_s: 60,
            left_s: 90,
            member: Some("192.0.2.9:5060".parse().unwrap()),
            last_status: Some(200),
            failures_in_a_row: 0,
            registered_total: 2,
            failed_total: 0,
            realm: Some("p.example".to_owned()),
            refused_for_s: 0,
            refused_total: 0,
        }
    }

    fn told(shown: Shown) -> String {
        let mut text = String::new();
        shown.write(&mut text);
        text
    }

    #[test]
    fn a_trunk_is_told_as_it_stands() {
        assert_eq!(
            told(shown()),
            "p: sip:4930@p.example is registered since 60 s, for 90 s more; 192.0.2.9:5060 answered 200; \
             challenges of realm \"p.example\" are answered\n"
        );
        let failing = Shown {
            state: Some("failing".to_owned()),
            why: Some("wrong_password".to_owned()),
            failures_in_a_row: 3,
            last_status: Some(401),
            refused_for_s: 30,
            ..shown()
        };
        assert_eq!(
            told(failing),
            "p: sip:4930@p.example is not registered since 60 s (wrong_password, 3 in a row), asked for again in \
             90 s; 192.0.2.9:5060 answered 401; challenges of realm \"p.example\" are answered; its password was \
             refused, nothing is sent to it for 30 s\n"
        );
        let foreign = Shown {
            state: Some("failing".to_owned()),
            why: Some("foreign_realm".to_owned()),
            failures_in_a_row: 1,
            last_status: Some(401),
            ..shown()
        };
        assert_eq!(
            told(foreign),
            "p: sip:4930@p.example is not registered since 60 s (foreign_realm, 1 in a row), asked for again in \
             90 s; 192.0.2.9:5060 answered 401; challenges of realm \"p.example\" are answered and no others: \
             the log says which realm it asks for\n"
        );
        let bare = Shown {
            account: None,
            state: None,
            member: None,
            realm: None,
            ..shown()
        };
        assert_eq!(told(bare), "p: nothing is registered\n");
        let empty = Listed {
            version: VERSION,
            trunks: Vec::new(),
        };
        assert_eq!(empty.text(), "no trunks are configured\n");
    }
}
