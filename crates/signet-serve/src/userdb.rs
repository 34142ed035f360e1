//! The stores of users that a configuration names.

use std::path::Path;
use std::time::{Duration, Instant};

use sip_auth::AuthConfig;
use sip_engine::Settings;
use sip_lookup::{CacheConfig, Mode, PipelineConfig, Tuning};
use sip_userdb::{Capabilities, Layout, Options, Secret, Tls, UserDb};
use tokio::task::LocalSet;
use zeroize::Zeroizing;

use crate::Error;
use crate::config::{DigestAlgorithm, LookupMode, Lookups, StoreTls, UserLayout, Users};
use crate::data_dir::{refuse_readable_by_others, unreadable};

/// How long a connection to a store may take to be made.
const CONNECT_TIMEOUT_MS: u64 = 5_000;
/// How long the stores may take together to list their domains, the connections included.
const DOMAINS_TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked of each store on another machine, in their order; none where users are
/// in the data folder's own database. Whoever only looks users up says which algorithms are
/// `wanted`.
pub(crate) fn options(
    users: &Users,
    wanted: Option<&[DigestAlgorithm]>,
) -> Result<Vec<Options>, Error> {
    if users.remote().next().is_none() {
        return Ok(Vec::new());
    }
    let password = password(users)?;
    let algorithms = users.algorithms.iter().map(|algorithm| algorithm.0);
    let algorithms: Vec<_> = algorithms.collect();
    let layout = match (users.layout, &users.query) {
        (UserLayout::Query, Some(query)) => Layout::Query(query.clone()),
        (UserLayout::Subscriber, _) => Layout::Subscriber {
            table: users.table.clone(),
            user_with_domain: users.user_with_domain,
        },
        _ => Layout::Signet,
    };
    let tls = match users.tls {
        StoreTls::Auto => Tls::Auto,
        StoreTls::Always => Tls::Always,
        StoreTls::Never => Tls::Never,
    };
    let options = users.remote().map(|url| Options {
        url: url.to_owned(),
        password: password.clone(),
        tls,
        tls_roots: users.tls_roots.clone(),
        layout: layout.clone(),
        algorithms: (!algorithms.is_empty()).then(|| algorithms.clone()),
        wanted: wanted.map(|wanted| wanted.iter().map(|algorithm| algorithm.0).collect()),
        connections_max: users.connections_max,
        connect_timeout_ms: CONNECT_TIMEOUT_MS,
    });
    Ok(options.collect())
}

/// How look-ups are sent to these stores; an error where more is asked for than their
/// connections carry.
pub(crate) fn pipeline_config(
    users: &Users,
    stores: usize,
    capabilities: &Capabilities,
) -> Result<PipelineConfig, Error> {
    let Lookups {
        mode,
        interval_us,
        batch_max,
        in_flight_max,
        processes,
        waiting_max,
        timeout_ms,
        latency_target_ms,
        load_max_percent,
    } = users.lookups;
    let batch_max = batch_max.min(capabilities.batch_max);
    // What the connections do not carry waits in the client, and what is measured there as
    // a queue in the store is none.
    let carried = capabilities.in_flight_max;
    match mode {
        LookupMode::Tuned => {}
        LookupMode::Fixed => must_be_carried("in_flight_max", in_flight_max, users, carried)?,
        LookupMode::Blocking => must_be_carried("processes", processes, users, carried)?,
    }
    Ok(PipelineConfig {
        mode: match mode {
            LookupMode::Tuned => Mode::Tuned,
            LookupMode::Fixed => Mode::Fixed {
                interval_us,
                batch_max,
                in_flight_max,
            },
            LookupMode::Blocking => Mode::Blocking {
                processes,
                batch: batch_max,
            },
        },
        replicas: stores,
        questions_max: waiting_max,
        batch_max,
        in_flight_max: in_flight_max.min(carried),
        timeout_us: timeout_ms.saturating_mul(1_000),
        tuning: Tuning {
            delay_target_us: latency_target_ms.saturating_mul(1_000),
            load_max: load_max_percent as f64 / 100.0,
        },
        ..PipelineConfig::default()
    })
}

/// An error where a fixed number of batches in flight is more than connections carry.
fn must_be_carried(name: &str, asked: usize, users: &Users, carried: usize) -> Result<(), Error> {
    if asked <= carried {
        return Ok(());
    }
    let connections = users.connections_max;
    Err(Error::new(
        format!(
            "users.lookups.{name}: {asked} batches cannot wait for their answers at a time; {connections} connections to this store carry {carried}"
        ),
        format!(
            "write {name} = {carried}, or a larger users.connections_max, of which Redis and LDAP use 16 at most, RADIUS and HTTP 64"
        ),
    ))
}

/// Memory for each user who may be remembered, names that do not exist included: with a name of
/// usual length he takes less than half of it. Never less than the cache's own default.
const BYTES_PER_ENTRY: usize = 640;

/// What is remembered of users; `None` for nothing. The processes of `blocking` ask for each user,
/// as those that they are compared with did.
pub(crate) fn cache_config(users: &Users, capabilities: &Capabilities) -> Option<CacheConfig> {
    let cache = &users.cache;
    let usual = CacheConfig::default();
    let lifetime_us = cache.lifetime_s.saturating_mul(1_000_000);
    let is_wanted = cache.entries_max > 0 && users.lookups.mode != LookupMode::Blocking;
    let bytes_max = cache.entries_max.saturating_mul(BYTES_PER_ENTRY);
    (is_wanted && !capabilities.verifies).then(|| CacheConfig {
        entries_max: cache.entries_max,
        bytes_max: bytes_max.max(usual.bytes_max),
        strangers_max: (cache.entries_max / 4).max(1),
        negatives_max: (cache.entries_max / 4).max(1),
        lifetime_us,
        negative_lifetime_us: cache.unknown_lifetime_s.saturating_mul(1_000_000),
        refresh_ahead_us: lifetime_us / 5,
        stale_us: cache.outage_s.saturating_mul(1_000_000),
    })
}

/// What the stores can do: what all of them can. Nothing is connected for it.
pub(crate) fn capabilities(options: &[Options]) -> Result<Option<Capabilities>, Error> {
    let mut all: Option<Capabilities> = None;
    for options in options {
        let store = UserDb::new(options.clone()).map_err(|error| store_error(&error))?;
        let one = store.capabilities();
        match &mut all {
            None => all = Some(one.clone()),
            Some(all) if all.verifies != one.verifies => {
                return Err(Error::new(
                    "users.stores: one store verifies digests by itself and another does not",
                    "name stores of one kind",
                ));
            }
            Some(all) => {
                all.algorithms.retain(|kept| one.algorithms.contains(kept));
                all.tells_unknown_users &= one.tells_unknown_users;
                all.is_writable &= one.is_writable;
                all.announces_changes &= one.announces_changes;
                all.batch_max = all.batch_max.min(one.batch_max);
                all.in_flight_max = all.in_flight_max.min(one.in_flight_max);
            }
        }
    }
    Ok(all)
}

/// Makes of the settings what the stores allow; an error where they ask for more.
pub(crate) fn fit_settings(
    settings: &mut Settings,
    capabilities: Option<&Capabilities>,
    is_remembered: bool,
) -> Result<(), Error> {
    if let Some(auth) = &mut settings.authenticate {
        auth.tells_unknown_users = capabilities.is_none_or(|can| can.tells_unknown_users);
        auth.tells_who_is_proved = is_remembered;
        auth.evens_refusals = capabilities.is_some();
    }
    match settings.takes_certificates_of_unknown_users() {
        None => Ok(()),
        Some(_) => Err(Error::new(
            "client_certificates_authenticate: the store of users does not tell whether a user still exists",
            "drop it, or keep users in a store that tells",
        )),
    }
}

/// The same for how users are challenged.
pub(crate) fn fit_auth(
    auth: &mut AuthConfig,
    capabilities: Option<&Capabilities>,
) -> Result<(), Error> {
    let Some(can) = capabilities else {
        return Ok(());
    };
    auth.store_verifies = can.verifies;
    auth.keep_held(&can.algorithms).map_err(|nothing| {
        Error::new(
            format!("authentication.algorithms: {nothing}"),
            "name one that the store holds, for example algorithms = [\"MD5\"]",
        )
    })
}

/// Why the domains of a store are not known.
pub(crate) enum NoDomains {
    /// It has no list of them, or one that is not read until somebody has changed it.
    Never(Error),
    /// It could not be asked, or not in time.
    Now(Error),
}

/// The domains that the first store lists that can be asked, in alphabetical order. Blocks, at
/// most for [`DOMAINS_TIMEOUT`].
pub(crate) fn domains(stores: &[Options]) -> Result<Vec<String>, NoDomains> {
    let deadline = Instant::now() + DOMAINS_TIMEOUT;
    let mut of_first = Ok(Vec::new());
    for (nth, store) in stores.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let listed = domains_of(store, share(left, stores.len() - nth));
        if !matches!(listed, Err(NoDomains::Now(_))) {
            return listed;
        }
        if nth == 0 {
            of_first = listed;
        }
    }
    of_first
}

/// How much of the time is left for each store behind another, where there is enough.
const KEPT_FOR_NEXT: Duration = Duration::from_secs(2);

/// What a store gets of the time that is left for it and those behind it: the last one is to be
/// asked where all before it are silent.
fn share(left: Duration, stores: usize) -> Duration {
    let stores = u32::try_from(stores.max(1)).unwrap_or(u32::MAX);
    let kept = KEPT_FOR_NEXT.saturating_mul(stores - 1);
    left.saturating_sub(kept).max(left / stores)
}

fn domains_of(store: &Options, timeout: Duration) -> Result<Vec<String>, NoDomains> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            NoDomains::Now(Error::new(
                format!("cannot ask the store of users for its domains: {error}"),
                "look at the limits of open files: ulimit -n",
            ))
        })?;
    let store = UserDb::new(store.clone());
    // What the configuration has wrong is found before; a file that it names may be back soon.
    let store = store.map_err(|error| NoDomains::Now(store_error(&error)))?;
    let asked = async { tokio::time::timeout(timeout, store.domains()).await };
    match LocalSet::new().block_on(&runtime, asked) {
        Ok(Ok(Some(mut domains))) => {
            domains.sort_unstable();
            domains.dedup();
            Ok(domains)
        }
        Ok(Ok(None)) => Err(NoDomains::Never(Error::new(
            "users.domains_from_store: this store lists no domains",
            "drop it, and name them in `domains`",
        ))),
        Ok(Err(error)) => Err(no_domains(&error)),
        Err(_) => Err(NoDomains::Now(Error::new(
            format!(
                "the store of users did not list its domains within {:.1} s",
                timeout.as_secs_f32()
            ),
            "see how much it has to do",
        ))),
    }
}

/// Why a store that answers so has listed none.
fn no_domains(error: &sip_userdb::Error) -> NoDomains {
    if error.is_lasting() {
        NoDomains::Never(store_error(error))
    } else {
        NoDomains::Now(store_error(error))
    }
}

/// An error of a store, with its remedy.
pub(crate) fn store_error(error: &sip_userdb::Error) -> Error {
    Error::new(error.what(), error.remedy())
}

fn password(users: &Users) -> Result<Option<Secret>, Error> {
    let (file, env) = (&users.password_file, &users.password_env);
    secret_of(
        "the password of the stores of users",
        "users",
        file.as_deref(),
        env.as_deref(),
    )
}

/// The password of a store, from a file or the environment; `what` it is is told of it, and `at`
/// is the table of the configuration that says which.
pub(crate) fn secret_of(
    what: &str,
    at: &str,
    file: Option<&Path>,
    env: Option<&str>,
) -> Result<Option<Secret>, Error> {
    let text = if let Some(path) = file {
        let text = std::fs::read(path)
            .map_err(|error| unreadable(&format!("read {what} from"), path, &error))?;
        let text = Zeroizing::new(text);
        refuse_readable_by_others(&format!("{what} in"), path)?;
        text
    } else if let Some(name) = env {
        let value = std::env::var_os(name).ok_or_else(|| {
            Error::new(
                format!("{at}.password_env: there is no variable {name} in the environment"),
                format!("start with {name}=..., or name a file by password_file"),
            )
        })?;
        Zeroizing::new(std::os::unix::ffi::OsStringExt::into_vec(value))
    } else {
        return Ok(None);
    };
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte));
    let bare = end.and_then(|end| text.get(..=end)).unwrap_or_default();
    if bare.is_empty() {
        return Err(Error::new(
            format!("{what} is empty"),
            format!("write it into the file that {at}.password_file names, or drop that"),
        ));
    }
    Ok(Some(Secret::new(bare.to_vec())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use sip_auth::{Algorithm, Ha1, Secrets, Subject};
    use sip_lookup::{BatchAnswer, Cache, Pipeline, Question, Why};

    use super::*;

    fn capabilities(in_flight_max: usize) -> Capabilities {
        Capabilities {
            algorithms: vec![Algorithm::Md5],
            verifies: false,
            tells_unknown_users: true,
            is_writable: false,
            announces_changes: false,
            batch_max: 500,
            in_flight_max,
        }
    }

    fn users(mode: LookupMode) -> Users {
        let lookups = Lookups {
            mode,
            in_flight_max: 64,
            processes: 64,
            ..Lookups::default()
        };
        Users {
            lookups,
            ..Users::default()
        }
    }

    #[test]
    fn no_more_is_in_flight_than_the_connections_carry() {
        let tuned = pipeline_config(&users(LookupMode::Tuned), 1, &capabilities(8)).unwrap();
        assert_eq!(tuned.in_flight_max, 8);
        for mode in [LookupMode::Fixed, LookupMode::Blocking] {
            let config = pipeline_config(&users(mode), 1, &capabilities(64)).unwrap();
            assert_eq!(config.in_flight_max, 64);
        }
    }

    #[test]
    fn fixed_numbers_that_the_connections_do_not_carry_are_an_error() {
        for (mode, name) in [
            (LookupMode::Fixed, "in_flight_max"),
            (LookupMode::Blocking, "processes"),
        ] {
            let error = pipeline_config(&users(mode), 1, &capabilities(8)).unwrap_err();
            assert!(
                error.what().contains(&format!("users.lookups.{name}: 64 ")),
                "{error}"
            );
            assert!(
                error.remedy().contains(&format!("write {name} = 8")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_none_however_often_it_is_asked_for() {
        let error = sip_userdb::Error::new("it lists too many", "make it shorter");
        assert!(matches!(no_domains(&error), NoDomains::Now(_)));
        assert!(matches!(no_domains(&error.lasting()), NoDomains::Never(_)));
    }

    #[test]
    fn processes_that_block_remember_nobody() {
        let of = |mode| cache_config(&users(mode), &capabilities(64));
        assert!(of(LookupMode::Tuned).is_some() && of(LookupMode::Fixed).is_some());
        assert_eq!(of(LookupMode::Blocking), None);
    }

    #[test]
    fn as_many_users_are_remembered_as_may_be() {
        const USERS: usize = 512_000;
        let mut users = users(LookupMode::Tuned);
        assert_eq!(
            cache_config(&users, &capabilities(64)).unwrap().bytes_max,
            CacheConfig::default().bytes_max
        );
        users.cache.entries_max = USERS;
        let config = cache_config(&users, &capabilities(64)).unwrap();
        let cache = Arc::new(Cache::new([1; 16], config));
        let one_by_one = PipelineConfig {
            mode: Mode::Fixed {
                interval_us: 0,
                batch_max: 1,
                in_flight_max: 1,
            },
            ..PipelineConfig::default()
        };
        let mut pipeline = Pipeline::new(0, [1; 16], one_by_one, Some(Arc::clone(&cache)));
        let realm: Arc<str> = Arc::from("example.org");
        for nth in 0..USERS {
            let user = Subject::new(format!("user{nth}").as_bytes(), Arc::clone(&realm));
            let question = Question {
                subject: user.clone(),
                algorithm: Algorithm::Md5,
                digest: None,
                why: Why::DigestUncached,
            };
            pipeline.submit(0, nth, question, 1_000_000).unwrap();
            let id = pipeline.poll_batch(0).unwrap().id;
            let mut secrets = Secrets::default();
            secrets.insert(Ha1::from_bytes(Algorithm::Md5, &[7; 16]).unwrap());
            pipeline.handle_answer(0, id, BatchAnswer::Rows(vec![Ok(Some(secrets))]));
            assert!(pipeline.poll_answer().is_some());
            cache.confirm(&user);
        }
        let figures = cache.figures();
        // Three quarters are for those who have shown their password.
        assert_eq!(figures.users, 384_000, "{figures:?}");
    }

    #[test]
    fn of_several_stores_the_least_counts() {
        let url = |query| Options {
            url: format!("mysql://signet@db.example.com/sip{query}"),
            password: None,
            tls: Tls::Never,
            tls_roots: None,
            layout: Layout::Signet,
            algorithms: None,
            wanted: None,
            connections_max: 4,
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
        };
        let can = |options: &[Options]| capabilities_of(options).in_flight_max;
        let both = [url(""), url("?pipelined=no")];
        assert!(can(&both[..1]) > 4);
        assert_eq!(can(&both), 4);
    }

    fn capabilities_of(options: &[Options]) -> Capabilities {
        super::capabilities(options).unwrap().unwrap()
    }

    #[test]
    fn stores_share_the_time_to_list_domains() {
        let mut left = DOMAINS_TIMEOUT;
        for stores in (1..=3).rev() {
            let of_one = share(left, stores);
            assert!(!of_one.is_zero(), "{stores}");
            left -= of_one;
        }
        assert!(left.is_zero(), "{left:?}");
        // Who is slow has most of it.
        assert_eq!(share(DOMAINS_TIMEOUT, 2), Duration::from_secs(8));
    }

    #[test]
    fn a_password_that_others_can_read_is_refused() {
        let name = format!("signet-store-password-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "correct horse\n").unwrap();
        let users = Users {
            password_file: Some(path.clone()),
            ..Users::default()
        };
        let with_mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            password(&users)
        };
        for mode in [0o640, 0o604] {
            let error = with_mode(mode).unwrap_err();
            assert!(error.what().contains("can be read by others"), "{error}");
            let whose = "the password of the stores of users in ";
            assert!(error.what().starts_with(whose), "{error}");
            assert!(error.remedy().starts_with("type: chmod 600 "), "{error}");
        }
        let secret = with_mode(0o600).unwrap().unwrap();
        assert_eq!(secret.expose(), b"correct horse");
        std::fs::remove_file(&path).unwrap();
    }
}
