//! Trunks: groups of gateways with a provider behind them, who wants to know this server by a
//! registration and a password, and callers by their numbers
//! (`docs/decisions/0210-a-trunk-is-a-group-with-more.md`).
//!
//! Towards a provider this server is a user agent for that one leg: it answers challenges,
//! counts CSeq for them and says who calls. What it changes is put back before the phone, or
//! anything else here, sees it. The dialog stays the phone's.

mod auth;
mod called;
mod challenge;
pub(crate) mod cseq;
mod diversion;
mod faces;
pub(crate) mod legs;
mod numbers;
mod plan;
pub(crate) mod register;
mod registration;
mod restore;
mod retried;
mod shared;
mod trust;

use std::sync::Arc;

use sip_auth::{Algorithm, Password, Side};
use sip_msg::network::IpNet;

pub(crate) use auth::Trunks;
pub(crate) use called::Called;
pub(crate) use faces::user_of;
pub use numbers::{NumberFormat, NumberPlan, Numbers};
pub use registration::{Change, Failure};
pub use shared::{SharedTrunks, Shown, State};

/// What makes a trunk of a group of gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The name of its group.
    pub name: Arc<str>,
    /// The provider's domain: that of the Request-URI, of numbers and of the account.
    pub domain: Arc<str>,
    /// The user of the account, which is the user of the registered contact too; empty for
    /// none.
    pub account: Arc<str>,
    /// With what its challenges are answered, if they are.
    pub credentials: Option<Credentials>,
    /// How the account is registered, if it is.
    pub registering: Option<Registering>,
    /// By what the provider knows a caller.
    pub identity: Identity,
    /// Whether To is the called number at the provider's domain as well.
    pub rewrites_to: bool,
    /// Whose numbers these are, and how numbers are written.
    pub numbers: Numbers,
    /// Who is trusted because calls go there.
    pub trust: Trust,
}

/// With what the challenges of one realm are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The realm, to the letter: no other is answered.
    pub realm: Arc<str>,
    /// The user name.
    pub user: Arc<str>,
    /// The password.
    pub password: Password,
    /// The weakest algorithm that is used; `None` for any.
    pub weakest: Option<Algorithm>,
    /// By which header calls are challenged; `None` for either.
    pub asked_by: Option<Side>,
}

/// How an account is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registering {
    /// Seconds that are asked for.
    pub expires_s: u32,
    /// Host and perhaps port of the contact, where others see another address than the
    /// listener's.
    pub contact: Option<Arc<str>>,
}

/// By what the provider knows a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// By From as it came.
    #[default]
    AsIs,
    /// By P-Asserted-Identity (RFC 3325).
    Asserted,
    /// By P-Preferred-Identity (RFC 3325).
    Preferred,
    /// By Remote-Party-ID.
    RemoteParty,
    /// By From.
    From,
}

/// Who is trusted because calls go there: to reach our users, and nobody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Whether the members' addresses are: as they are written, and as DNS gives them.
    pub by_address: bool,
    /// Domains that a certificate must prove, of which one is enough.
    pub identities: Vec<Arc<str>>,
    /// Further addresses.
    pub networks: Vec<IpNet>,
    /// Whether TLS is required.
    pub secure_only: bool,
}

/// What befell a trunk, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrunkEvent {
    /// Its registration has changed.
    Registration(Change),
    /// Its password was refused: nothing that begins something is sent to it for a while.
    PasswordRefused {
        /// For how long.
        for_ms: u64,
    },
}

impl Trunk {
    /// Whether requests to it are counted by this server
    /// (`docs/decisions/0211-cseq-of-an-authenticated-leg.md`).
    pub(crate) const fn counts(&self) -> bool {
        self.credentials.is_some()
    }

    /// Whether requests within its dialogs need something done.
    pub(crate) fn marks_dialogs(&self) -> bool {
        self.counts() || self.identity != Identity::AsIs || self.rewrites_to
    }
}

#[cfg(test)]
pub(crate) fn of_tests() -> Trunk {
    Trunk {
        name: "provider".into(),
        domain: "provider.example".into(),
        account: "4930100".into(),
        credentials: Some(Credentials {
            realm: "provider.example".into(),
            user: "4930100".into(),
            password: Password::new("swordfish".to_owned()),
            weakest: None,
            asked_by: None,
        }),
        registering: None,
        identity: Identity::AsIs,
        rewrites_to: false,
        numbers: Numbers {
            plan: NumberPlan {
                country_code: "49".into(),
                national_prefix: "0".into(),
                international_prefix: "00".into(),
                format: NumberFormat::E164,
            },
            main: Some("+4930100".into()),
            users: vec![("+4930101".into(), "alice".into())],
            to: None,
        },
        trust: Trust::default(),
    }
}
