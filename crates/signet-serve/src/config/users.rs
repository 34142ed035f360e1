//! Where users are kept, and how they are looked up there.

use std::path::PathBuf;

use serde::Deserialize;

use super::check::Faults;
use super::values::{DigestAlgorithm, within};

/// The data folder's own database, as a URL.
const EMBEDDED: &str = "sqlite:";

/// Where users are kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Users {
    /// The stores that hold them, the first preferred. Without any, the data folder's
    /// own database.
    pub stores: Vec<StoreUrl>,
    /// A file with the stores' password.
    pub password_file: Option<PathBuf>,
    /// The environment variable with it; the file counts where there is one.
    pub password_env: Option<String>,
    /// When the connections to stores are encrypted.
    pub tls: StoreTls,
    /// PEM file with the authorities that certify stores; without one, the system's.
    pub tls_roots: Option<PathBuf>,
    /// How users are kept there.
    pub layout: UserLayout,
    /// The table of the layout `subscriber`.
    pub table: String,
    /// Whether phones of the layout `subscriber` give `user@domain` as their user name.
    pub user_with_domain: bool,
    /// The statement of the layout `query`.
    pub query: Option<String>,
    /// The algorithms whose HA1s the stores hold, where the layout does not tell.
    pub algorithms: Vec<DigestAlgorithm>,
    /// Whether the stores' own list of domains counts besides `domains`.
    pub domains_from_store: bool,
    /// How often that list is read again; 0: at a reload only. Until there is one that was taken
    /// over, every half minute at least.
    #[serde(deserialize_with = "within::<_, _, 0, 86_400>")]
    pub domains_poll_s: u64,
    /// The most connections to each store.
    #[serde(deserialize_with = "within::<_, _, 1, 1_024>")]
    pub connections_max: usize,
    /// How look-ups are sent.
    pub lookups: Lookups,
    /// What is remembered of them.
    pub cache: UserCache,
}

/// How look-ups are sent to stores at a distance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lookups {
    /// Who chooses how many go together and how often.
    pub mode: LookupMode,
    /// With `fixed`: the time between two batches.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub interval_us: u64,
    /// The most users in one batch.
    #[serde(deserialize_with = "within::<_, _, 1, 4_096>")]
    pub batch_max: usize,
    /// The most batches that wait for their answer at a time.
    #[serde(deserialize_with = "within::<_, _, 1, 4_096>")]
    pub in_flight_max: usize,
    /// With `blocking`: how many send one batch and wait for it.
    #[serde(deserialize_with = "within::<_, _, 1, 1_024>")]
    pub processes: usize,
    /// Look-ups that wait to be sent.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000_000>")]
    pub waiting_max: usize,
    /// How long a store may take for one batch.
    #[serde(deserialize_with = "within::<_, _, 10, 60_000>")]
    pub timeout_ms: u64,
    /// What a look-up may take beyond the round trip; the tuner keeps to it.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000>")]
    pub latency_target_ms: u64,
    /// How much of a store's capacity the tuner may use.
    #[serde(deserialize_with = "within::<_, _, 1, 100>")]
    pub load_max_percent: u64,
}

/// What is remembered of users from stores at a distance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserCache {
    /// Users remembered; 0 is none.
    #[serde(deserialize_with = "within::<_, _, 0, 100_000_000>")]
    pub entries_max: usize,
    /// How long a user is remembered.
    #[serde(deserialize_with = "within::<_, _, 1, 86_400>")]
    pub lifetime_s: u64,
    /// How long it is remembered that there is no such user.
    #[serde(deserialize_with = "within::<_, _, 0, 3_600>")]
    pub unknown_lifetime_s: u64,
    /// How much longer users are remembered while no store can be reached.
    #[serde(deserialize_with = "within::<_, _, 0, 604_800>")]
    pub outage_s: u64,
}

/// Who chooses how look-ups are batched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LookupMode {
    /// The tuner, by what it measures.
    #[default]
    Tuned,
    /// `interval_us`, `batch_max` and `in_flight_max`.
    Fixed,
    /// `processes` that each send `batch_max` and wait, as Dacosta 2009 measured it.
    Blocking,
}

/// How users are kept in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserLayout {
    /// Signet's own.
    #[default]
    Signet,
    /// The table of Kamailio and OpenSIPS.
    Subscriber,
    /// By a statement of the operator's own.
    Query,
}

/// When the connection to a store is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreTls {
    /// Everywhere except on this machine.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The URL of a store, without a password.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct StoreUrl(pub String);

impl TryFrom<String> for StoreUrl {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let is_embedded = text == EMBEDDED;
        match sip_userdb::check_url(&text) {
            Err(error) if !is_embedded => Err(format!("{}\n{}", error.what(), error.remedy())),
            _ => Ok(Self(text)),
        }
    }
}

impl Default for Users {
    fn default() -> Self {
        Self {
            stores: Vec::new(),
            password_file: None,
            password_env: None,
            tls: StoreTls::Auto,
            tls_roots: None,
            layout: UserLayout::Signet,
            table: "subscriber".to_owned(),
            user_with_domain: false,
            query: None,
            algorithms: Vec::new(),
            domains_from_store: false,
            domains_poll_s: 60,
            connections_max: 8,
            lookups: Lookups::default(),
            cache: UserCache::default(),
        }
    }
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            mode: LookupMode::Tuned,
            interval_us: 500,
            batch_max: 256,
            in_flight_max: 1_024,
            processes: 4,
            waiting_max: 65_536,
            timeout_ms: 2_000,
            latency_target_ms: 10,
            load_max_percent: 80,
        }
    }
}

impl Default for UserCache {
    fn default() -> Self {
        Self {
            entries_max: 100_000,
            lifetime_s: 60,
            unknown_lifetime_s: 10,
            outage_s: 3_600,
        }
    }
}

impl Users {
    /// The URLs of the stores on other machines; none where users are in the data
    /// folder's own database.
    pub fn remote(&self) -> impl Iterator<Item = &str> {
        let urls = self.stores.iter().map(|store| store.0.as_str());
        urls.filter(|url| *url != EMBEDDED)
    }

    pub(super) fn check(&self, faults: &mut Faults) {
        if self.stores.len() > 1 && self.stores.iter().any(|store| store.0 == EMBEDDED) {
            faults.add(
                "users.stores",
                "the data folder's own database cannot stand in for another store",
                "write \"sqlite:\" alone, or leave it out",
            );
        }
        if self.stores.len() > 8 {
            faults.add("users.stores", "there are more than 8 stores", "drop some");
        }
        if self.layout == UserLayout::Query && self.query.is_none() {
            faults.add(
                "users.layout",
                "the layout `query` has no statement",
                "write query = \"SELECT ...\"; docs/STORES.md says what it may hold",
            );
        }
    }

    /// The files that it names.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.password_file
            .iter_mut()
            .chain(self.tls_roots.iter_mut())
    }
}
